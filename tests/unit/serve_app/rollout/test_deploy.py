"""The statuses of applications, and which of them are final."""

from __future__ import annotations

from typing import Any

import pytest

from serve_app.errors import DeployError
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.deploy import (
    DRAINING,
    RUNNING,
    failures,
    is_building,
    is_deploying,
    serves,
    wait_until_running,
)

DASHBOARD = RayDashboard("http://nowhere")
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

    def applications(dashboard: RayDashboard) -> dict[str, Any]:
        return {"flow": states.pop(0) if len(states) > 1 else states[0]}

    monkeypatch.setattr(RayDashboard, "applications", applications)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return states


def wait() -> None:
    wait_until_running(DASHBOARD, ["flow"], timeout_s=5)


def test_unhealthy_is_not_final(cluster):
    cluster += [state("UNHEALTHY"), state("DEPLOYING"), state("RUNNING")]
    wait()


def test_a_failure_is_reported_by_the_last_line_of_the_deployment(cluster):
    traceback = "Traceback:\n  File x\nValueError: no such policy"
    cluster += [state("DEPLOYING"), state("DEPLOY_FAILED", "Failed to update.", traceback)]
    with pytest.raises(DeployError, match=r"flow is DEPLOY_FAILED: ValueError: no such policy$"):
        wait()


def test_a_failure_without_a_deployment_is_reported_by_the_application(cluster):
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
def test_a_new_version_may_be_accepted_while_the_old_one_drains(states, drains, cluster):
    replacing = state("DEPLOYING")
    replacing["deployments"]["Flow"]["replicas"] = [{"state": each} for each in states]
    cluster += [replacing, state("RUNNING")]
    seen: list[str] = []

    def report(name: str, status: str, seconds: float) -> None:
        seen.append(status)

    wait_until_running(DASHBOARD, ["flow"], 5, report, accepted=(RUNNING, DRAINING))
    assert seen == ([DRAINING] if drains else ["DEPLOYING", RUNNING])


def test_by_default_the_old_version_must_have_ended(cluster):
    draining = state("DEPLOYING")
    draining["deployments"]["Flow"]["replicas"] = [{"state": "RUNNING"}, {"state": "STOPPING"}]
    cluster += [draining, state("RUNNING")]
    wait()
    assert len(cluster) == 1


def test_a_config_is_served_when_its_code_is_what_was_sent_last(cluster):
    cluster += [state("RUNNING")]
    assert serves(DASHBOARD, {"applications": [APPLICATION]})
    newer = APPLICATION | {"runtime_env": {"env_vars": {"GREENWAVE_VERSION": "2"}}}
    assert not serves(DASHBOARD, {"applications": [newer]})
    assert not serves(DASHBOARD, {"applications": [APPLICATION | {"name": "density"}]})


@pytest.mark.parametrize(
    ("status", "deploying"), [("DEPLOYING", True), ("DEPLOY_FAILED", False), ("RUNNING", False)]
)
def test_a_cluster_is_deploying_until_every_application_is_settled(cluster, status, deploying):
    cluster.append(state(status))
    assert is_deploying(DASHBOARD) == deploying


@pytest.mark.parametrize(
    ("status", "deployments", "building"),
    [
        ("DEPLOYING", {}, True),
        ("DEPLOYING", {"Flow": {}}, False),
        ("DEPLOY_FAILED", {}, False),
    ],
)
def test_an_application_is_built_when_its_deployments_are_known(
    cluster, status, deployments, building
):
    cluster.append({"status": status, "deployments": deployments})
    assert is_building(DASHBOARD) is building


def test_only_what_serve_has_given_up_has_failed():
    applications = {
        "flow": state("DEPLOY_FAILED", "", "Traceback:\nOSError: busy\n"),
        "density": state("UNHEALTHY"),
        "loans": state("DEPLOYING"),
    }
    assert failures(applications) == {"flow": "OSError: busy"}
