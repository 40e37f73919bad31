"""The statuses of applications, which of them are final, and the stages and steps of deploys."""

from typing import Any

import pytest

from load_tests.harness.shipped import shipped_config
from serve_app.errors import DeployError
from serve_app.rollout.deploy import (
    DRAINING,
    RUNNING,
    Config,
    failures,
    minimal,
    rolling_update,
    staged_startup,
    wait_until_running,
)
from tests.support.fake_ray import FakeRay, runs

APPLICATION = {"name": "flow", "import_path": "serve_app.flow:build", "args": {}}
TRACEBACK = "Traceback:\n  File x\nValueError: no such policy"


def state(status: str, message: str = "", deployment: str = "", *replicas: str) -> dict[str, Any]:
    """Return what Serve reports of the application, its deployment's message and replicas."""
    states = [{"state": each} for each in replicas]
    deployments = {"Flow": {"status": status, "message": deployment, "replicas": states}}
    return runs(APPLICATION) | {"status": status, "message": message, "deployments": deployments}


@pytest.fixture
def states(ray_api: FakeRay) -> list[dict[str, Any]]:
    """Report these states of the application one after the other, and the last one again."""
    reported: list[dict[str, Any]] = []
    ray_api.serve(APPLICATION)
    ray_api.report = lambda config: reported.pop(0) if len(reported) > 1 else reported[0]
    return reported


def wait(ray_api: FakeRay, *accepted: str, names: tuple[str, ...] = ("flow",)) -> list[str]:
    """Return what is reported as waited for until all applications run."""
    seen: list[str] = []
    wait_until_running(
        ray_api.dashboard,
        [*names],
        timeout_s=10,
        report=lambda names, waiting, seconds: seen.append(" ".join(waiting)),
        accepted=(RUNNING, *accepted),
    )
    return seen


def test_unhealthy_is_not_final(ray_api, states):
    states += [state("UNHEALTHY"), state("DEPLOYING"), state("RUNNING")]
    assert wait(ray_api) == ["flow", ""]


def test_progress_never_goes_back(ray_api):
    """An application that runs is deployed again, for its other replicas."""
    flow, density = APPLICATION, APPLICATION | {"name": "density"}
    polls = iter(["DEPLOYING", "DEPLOYING", "RUNNING", "DEPLOYING", "DEPLOYING", "RUNNING"])
    last = ["RUNNING", "RUNNING"]
    ray_api.serve(flow, density)
    ray_api.report = lambda config: state(next(polls, None) or last.pop())
    assert wait(ray_api, names=("flow", "density")) == ["flow density", "density", ""]


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        (state("DEPLOY_FAILED", "Failed to update.", TRACEBACK), "ValueError: no such policy"),
        (state("DEPLOY_FAILED", "Traceback\nImportError: no module x"), "ImportError: no module x"),
    ],
    ids=["deployment", "application"],
)
def test_a_failure_is_reported_by_the_last_line_of_what_failed(ray_api, states, failed, reason):
    states += [state("DEPLOYING"), failed]
    with pytest.raises(DeployError, match=f"flow is DEPLOY_FAILED: {reason}$"):
        wait(ray_api)


def test_only_what_serve_has_given_up_has_failed():
    statuses = {"flow": "DEPLOY_FAILED", "density": "UNHEALTHY", "loans": "DEPLOYING"}
    found = {name: state(status, "", TRACEBACK) for name, status in statuses.items()}
    assert failures(found) == {"flow": "ValueError: no such policy"}


@pytest.mark.parametrize(
    ("replicas", "drains"),
    [
        (["RUNNING", "RUNNING"], False),
        (["RUNNING", "STARTING"], False),
        (["RUNNING", "STARTING", "STOPPING"], False),
        (["RUNNING", "STOPPING"], True),
    ],
)
def test_a_new_version_may_be_accepted_while_the_old_one_drains(ray_api, states, replicas, drains):
    changing = state("DEPLOYING", "", "", *replicas)
    states += [changing, state("RUNNING")]
    assert wait(ray_api, DRAINING) == ([""] if drains else ["flow", ""])
    states[:] = [changing, state("RUNNING")]
    assert wait(ray_api) == ["flow", ""], "by default, it must have ended"


def flow(**deployment: object) -> dict[str, Any]:
    flow = {"name": "flow", "import_path": "serve_app.flow:build"}
    return {"applications": [{**flow, "deployments": [{"name": "Flow", **deployment}]}]}


@pytest.mark.parametrize(
    ("shipped", "smallest"),
    [
        ({"num_replicas": 3}, {"num_replicas": 1}),
        ({"num_replicas": 0}, {"num_replicas": 0}),
        (
            {"autoscaling_config": {"min_replicas": 2, "initial_replicas": 3, "max_replicas": 4}},
            {"autoscaling_config": {"min_replicas": 1, "max_replicas": 1}},
        ),
        (
            {"autoscaling_config": {"min_replicas": 0}},
            {"autoscaling_config": {"min_replicas": 0, "max_replicas": 1}},
        ),
        ({"num_replicas": "auto"}, {"num_replicas": "auto"}),
        ({}, {}),
    ],
)
def test_an_application_starts_with_one_replica(shipped, smallest):
    (before,), (after,) = (flow(**each)["applications"] for each in (shipped, smallest))
    assert minimal(before) == after
    assert [before] == flow(**shipped)["applications"]


def test_decisions_start_before_the_whole_config():
    shipped = shipped_config()
    (first, whole) = staged_startup(shipped)
    assert [each["name"] for each in first["applications"]] == ["inference", "gateway"]
    assert first["applications"] == [minimal(each) for each in shipped["applications"][:2]]
    assert whole == shipped


def versioned(**versions: int) -> Config:
    applications = [{"name": name, "args": {"version": n}} for name, n in versions.items()]
    return {"applications": applications}


@pytest.mark.parametrize(
    "before",
    [None, versioned(a=2, b=2), versioned(a=1, b=2), versioned(a=1), versioned(a=1, b=1, c=1)],
    ids=["nothing", "the same", "one changed", "one added", "one removed"],
)
def test_any_other_change_is_one_step(before):
    after = versioned(a=2, b=2)
    assert list(rolling_update(before, after)) == [(None, after)]


def test_routes_change_in_one_step():
    before, after = versioned(a=1, b=1), versioned(a=2, b=2)
    crossed = zip(before["applications"], reversed(after["applications"]), strict=True)
    for route, (one, other) in enumerate(crossed):
        one["route_prefix"] = other["route_prefix"] = f"/{route}"
    assert list(rolling_update(before, after)) == [(None, after)]
