"""Two cities in one graph, as configs/two-cities.yaml has them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml

from lab.train.untrained import save_untrained
from load_tests.harness.shipped import ROOT
from load_tests.harness.system import System
from models.networks.network import read_network
from models.networks.shipped import SHIPPED
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from tests.cluster.gateway.conftest import ENVIRONMENT, USER

HARBOUR = read_network(ROOT / "configs" / "harbour.json")
JUNCTION, OBS = "customs", [0.0, 1.0, 0.0, 1.0, 0.4, 0.1, 0.9, 0.0, 0.2]
STEP = "X-Hidden-State-Step"


def of_the_config(name: str, **args: str) -> dict[str, Any]:
    config = yaml.safe_load((ROOT / "configs" / "two-cities.yaml").read_text())
    (found,) = [each for each in config["applications"] if each["name"] == name]
    found["args"] |= args
    found["runtime_env"]["env_vars"] |= ENVIRONMENT
    return dict(found)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("harbour") / "harbour.untrained.th"
    save_untrained(path, HARBOUR)
    return path


@pytest.fixture(scope="module")
def cities(system: System, policy: Path) -> Iterator[System]:
    system.deploy(
        of_the_config("inference-harbour", agent_path=str(policy)),
        of_the_config("gateway-harbour"),
    )
    yield system
    system.remove("inference-harbour", "gateway-harbour")


def predict(system: System, city: str, run: str, junction: str = JUNCTION) -> httpx.Response:
    return httpx.post(
        f"{system.url}{city}/predict_action",
        json={"junction_id": junction, "obs_data": OBS[: 8 if not city else None]},
        headers={"X-Simulation-Run": run},
        timeout=10,
    )


def test_each_city_answers_for_its_junctions_with_its_policy_and_hidden_states(
    cities, policy, run_id
):
    expected = PolicyStep.load(policy, HARBOUR)
    agent = [HARBOUR.junctions[JUNCTION].agent_index]
    inputs = InputLayout(HARBOUR).encode(agent, [OBS])
    hidden = np.zeros((1, HIDDEN_DIM), np.float32)
    for number in ("1", "2", "3"):
        step = expected(inputs, hidden, HARBOUR.unavailable[agent])
        hidden = step.hidden
        answer = predict(cities, "/harbour", run_id)
        assert answer.headers[STEP] == number
        assert answer.json() == {
            "junction_id": JUNCTION,
            "action": int(step.actions[0]),
            "confidence": pytest.approx(float(step.confidences[0]), abs=1e-4),
        }
    assert predict(cities, "", run_id).status_code == 404
    assert predict(cities, "/harbour", run_id, SHIPPED.ids[1]).status_code == 404
    assert predict(cities, "", run_id, SHIPPED.ids[1]).headers[STEP] == "1"
    reset = {"X-Simulation-Run": run_id}
    httpx.post(f"{cities.url}/reset_hidden", headers=reset, timeout=10).raise_for_status()
    assert predict(cities, "/harbour", run_id).headers[STEP] == "4"
    assert predict(cities, "", run_id, SHIPPED.ids[1]).headers[STEP] == "1"


def test_each_city_has_its_own_gateway(cities):
    with httpx.Client(base_url=f"{cities.url}/harbour/api", timeout=10) as client:
        token = client.post("/auth/login", json=USER).raise_for_status().json()["accessToken"]
        client.headers["Authorization"] = f"Bearer {token}"
        body = {"junctionId": JUNCTION, "observations": OBS}
        response = client.post("/traffic/action", json=body)
        assert (response.status_code, response.json()["status"]) == (200, "success")
        body["junctionId"] = SHIPPED.ids[1]
        assert client.post("/traffic/action", json=body).status_code == 400
