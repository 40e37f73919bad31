"""What the cluster says of its applications, and what of it is final."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from serve_app import ray_dashboard
from serve_app.rollout.deploy import (
    DRAINING,
    RUNNING,
    DeployError,
    is_building,
    is_deploying,
    serves,
    wait_until_running,
)

APPLICATION = {"name": "flow", "import_path": "serve_app.flow:build", "args": {}}


def state(status: str, message: str = "", deployment_message: str = "") -> dict[str, Any]:
    deployment = {"status": status, "message": deployment_message}
    return {
        "status": status,
        "message": message,
        "deployments": {"Flow": deployment},
        "deployed_app_config": APPLICATION,
    }


@pytest.fixture
def cluster(monkeypatch):
    """Answer with the given states of the application one after the other."""
    states: list[dict[str, Any]] = []

    def get(url: str, path: str, timeout_s: float) -> httpx.Response:
        now = states.pop(0) if len(states) > 1 else states[0]
        request = httpx.Request("GET", "http://nowhere")
        return httpx.Response(200, json={"applications": {"flow": now}}, request=request)

    monkeypatch.setattr(ray_dashboard, "get", get)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return states


def wait() -> None:
    wait_until_running("http://nowhere", ["flow"], timeout_s=5)


def test_unhealthy_for_a_moment_is_not_the_end(cluster):
    cluster += [state("UNHEALTHY"), state("DEPLOYING"), state("RUNNING")]
    wait()


def test_a_failure_is_told_by_the_last_line_of_the_deployment(cluster):
    traceback = "Traceback:\n  File x\nValueError: no such policy"
    cluster += [state("DEPLOYING"), state("DEPLOY_FAILED", "Failed to update.", traceback)]
    with pytest.raises(DeployError, match=r"flow is DEPLOY_FAILED: ValueError: no such policy$"):
        wait()


def test_a_failure_before_there_is_a_deployment_is_told_by_the_application(cluster):
    cluster += [state("DEPLOY_FAILED", "Traceback\nImportError: no module x")]
    with pytest.raises(DeployError, match="ImportError: no module x"):
        wait()


@pytest.mark.parametrize(
    ("states", "drains"),
    [
        (["RUNNING", "RUNNING"], False),
        (["RUNNING", "STARTING"], False),
        (["RUNNING", "STARTING", "STOPPING"], False),
        (["RUNNING", "STOPPING"], True),
    ],
)
def test_a_new_version_may_be_enough_although_the_old_one_has_not_ended(states, drains, cluster):
    replacing = state("DEPLOYING")
    replacing["deployments"]["Flow"]["replicas"] = [{"state": each} for each in states]
    cluster += [replacing, state("RUNNING")]
    seen: list[str] = []

    def report(name: str, status: str, seconds: float) -> None:
        seen.append(status)

    wait_until_running("http://nowhere", ["flow"], 5, report, enough=(RUNNING, DRAINING))
    assert seen == ([DRAINING] if drains else ["DEPLOYING", RUNNING])


def test_in_the_end_the_old_version_has_to_have_ended(cluster):
    draining = state("DEPLOYING")
    draining["deployments"]["Flow"]["replicas"] = [{"state": "RUNNING"}, {"state": "STOPPING"}]
    cluster += [draining, state("RUNNING")]
    wait()
    assert len(cluster) == 1


def test_a_config_is_served_when_its_code_is_what_was_sent_last(cluster):
    cluster += [state("RUNNING")]
    assert serves("http://nowhere", {"applications": [APPLICATION]})
    newer = APPLICATION | {"runtime_env": {"env_vars": {"GREENWAVE_VERSION": "2"}}}
    assert not serves("http://nowhere", {"applications": [newer]})
    assert not serves("http://nowhere", {"applications": [APPLICATION | {"name": "density"}]})


@pytest.mark.parametrize(
    ("status", "deployments", "building", "deploying"),
    [
        ("DEPLOYING", {}, True, True),
        ("DEPLOYING", {"Flow": {"status": "UPDATING", "message": ""}}, False, True),
        ("DEPLOY_FAILED", {}, False, False),
        ("RUNNING", {"Flow": {"status": "HEALTHY", "message": ""}}, False, False),
    ],
)
def test_an_application_is_building_until_it_has_deployments(
    cluster, status, deployments, building, deploying
):
    cluster.append(state(status) | {"deployments": deployments})
    assert is_building("http://nowhere") == building
    assert is_deploying("http://nowhere") == deploying
