"""A machine with other code than a cluster serves, or without a model file, is told so."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from load_tests.harness.shipped import shipped_config
from serve_app.cli.main import main
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.code_version import VARIABLE, stamp

URL = "http://10.0.0.11:8265"


@pytest.fixture(autouse=True)
def _of_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORE_URL", "RAY_REDIS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Serve the shipped config from a cluster; return what was deployed, by application."""
    served = {each["name"]: each for each in stamp(shipped_config())["applications"]}

    def applications(dashboard: RayDashboard) -> dict[str, Any]:
        assert dashboard == RayDashboard(URL)
        return {name: {"deployed_app_config": config} for name, config in served.items()}

    monkeypatch.setattr(RayDashboard, "applications", applications)
    return served


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["node", "--cluster", f"{URL}/"]) == 1
    return capsys.readouterr().err


def test_a_machine_with_the_same_code_and_files_may_join(
    deployed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", "--cluster", URL]) == 0
    assert "the code and the model files that the cluster serves" in capsys.readouterr().out


def test_another_version_of_the_code_is_refused_and_both_are_named(
    deployed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    variables = deployed["loans"]["runtime_env"]["env_vars"]
    here, variables[VARIABLE] = variables[VARIABLE], "0123456789abcdef"
    assert refusal(capsys) == (
        "Application loans is served with version 0123456789abcdef of the code, and this machine"
        f" has version {here}. Install the same on every node.\n"
    )


@pytest.mark.parametrize("said", ["in the environment", "in the config"])
def test_a_model_file_that_is_not_here_is_named(
    deployed: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    said: str,
) -> None:
    missing = str(tmp_path / "agent.th")
    if said == "in the environment":
        monkeypatch.setenv("MAPPO_AGENT_PATH", missing)
    else:
        deployed["inference"]["deployments"][0]["user_config"] = {"agent_path": missing}
    told = refusal(capsys)
    assert "Application inference" in told
    assert missing in told


def test_what_serve_deploy_has_sent_bears_no_version_to_compare(
    deployed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    del deployed["cards"]["runtime_env"]["env_vars"][VARIABLE]
    assert main(["node", "--cluster", URL]) == 0
    assert "cards was deployed without a version of its code." in capsys.readouterr().out


def test_a_cluster_that_serves_nothing_of_ours_is_said_to(
    deployed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    deployed.clear()
    assert refusal(capsys) == f"The cluster at {URL} serves nothing to compare with.\n"


def test_where_no_cluster_answers_it_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def applications(dashboard: RayDashboard) -> dict[str, Any]:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(RayDashboard, "applications", applications)
    assert refusal(capsys) == f"No cluster answers at {URL}: refused\n"


@pytest.mark.parametrize(
    ("name", "form"),
    [("STORE_URL", "redis://:secret@127.0.0.1:{}/0"), ("RAY_REDIS_ADDRESS", "127.0.0.1:{}")],
)
def test_a_redis_that_is_gone_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, form: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as redis:
        port = redis.getsockname()[1]
        monkeypatch.setenv(name, form.format(port))
        assert main(["node"]) == 0
    assert main(["node"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"{name} names 127.0.0.1:{port}, where no Redis answers: ")
    assert "secret" not in told


def test_an_embedded_store_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_URL", "sqlite:////data/greenwave.db")
    assert main(["node"]) == 0


def test_a_port_that_is_none_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STORE_URL", "redis://localhost:99999/0")
    assert main(["node"]) == 1
    assert capsys.readouterr().err.startswith("STORE_URL does not name a Redis: ")


def test_a_redis_that_is_not_named_is_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node"]) == 0
    assert "Neither STORE_URL nor RAY_REDIS_ADDRESS is set" in capsys.readouterr().out
