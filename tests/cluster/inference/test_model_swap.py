"""Another policy without a restart, and files that cannot be served."""

from __future__ import annotations

import httpx

from load_tests.harness.system import System, application
from tests.cluster.conftest import Weights, save_policy
from tests.reference import JUNCTIONS, ReferenceJunction

OBS = [0.2, 0.9]


def predict(system: System, run: str) -> httpx.Response:
    return httpx.post(
        f"{system.url}/swap/predict_action",
        json={"junction_id": JUNCTIONS[3], "obs_data": OBS},
        headers={"X-Simulation-Run": run},
        timeout=10,
    )


def health(system: System) -> dict[str, object]:
    body: dict[str, object] = httpx.get(f"{system.url}/swap/health", timeout=10).json()
    return body


def test_a_policy_is_swapped_while_the_replica_runs_and_a_bad_one_leaves_it_in_place(
    system, weights, tmp_path
):
    def confidence(state_dict: Weights) -> float:
        return round(ReferenceJunction(state_dict, JUNCTIONS[3]).step(OBS)[1], 3)

    other = save_policy(tmp_path / "other.th", seed=2)
    (tmp_path / "bad.th").write_bytes(b"not a policy")
    system.deploy(application("swap", "/swap"))
    replica = system.replicas("swap")[0].pid
    assert round(predict(system, "before").json()["confidence"], 3) == confidence(weights)

    swap = {"agent_path": str(tmp_path / "other.th")}
    system.deploy(application("swap", "/swap", user_config=swap))
    assert round(predict(system, "after").json()["confidence"], 3) == confidence(other)

    bad = {"agent_path": str(tmp_path / "bad.th")}
    system.deploy(application("swap", "/swap", user_config=bad))
    assert round(predict(system, "still").json()["confidence"], 3) == confidence(other)
    told = health(system)
    assert told["status"] == "healthy"
    assert "bad.th" in str(told["detail"])
    assert [process.pid for process in system.replicas("swap")] == [replica]
    system.remove("swap")


def test_without_a_policy_the_service_is_up_and_says_why(system, tmp_path):
    env = {"MAPPO_AGENT_PATH": str(tmp_path / "none.th")}
    system.deploy(application("swap", "/swap", env=env))
    told = health(system)
    assert (told["status"], told["model_loaded"]) == ("no_model", False)
    assert "no such file" in str(told["detail"])
    answer = predict(system, "none")
    assert (answer.status_code, answer.json()) == (503, {"detail": "Model not loaded"})
    info = httpx.get(f"{system.url}/swap/model_info", timeout=10)
    assert info.json()["input_shape"] == 24
    system.remove("swap")
