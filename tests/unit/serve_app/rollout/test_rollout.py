"""A config that does not run changes nothing: the current release is restored."""

import _thread
import contextlib
import errno
import os
from typing import Any

import pytest

from serve_app.errors import DeployError
from serve_app.rollout import releases as releases_module
from serve_app.rollout.releases import Releases
from serve_app.rollout.rollout import Rollout
from tests.support.fake_ray import FakeRay, node, runs

Config = dict[str, Any]


def config(name: str, **application: object) -> Config:
    built = {"name": name, "import_path": "elsewhere:build", **application}
    return {"applications": [built], "http_options": {"port": 8100}}


@pytest.fixture
def releases(tmp_path, monkeypatch):
    monkeypatch.setattr(releases_module, "LOCK_TIMEOUT_S", 0.0)
    return Releases(tmp_path)


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def rollout(releases, ray_api, warnings):
    return Rollout(ray_api.dashboard, 8100, releases, timeout_s=10, warn=warnings.append)


@pytest.fixture
def two_releases(rollout, ray_api):
    for name in ("first", "second"):
        rollout.deploy(config(name))
    ray_api.sent.clear()


@pytest.fixture
def bad(ray_api: FakeRay) -> None:
    """Let applications fail that are named bad, but for the first version."""

    def report(application: Config) -> dict[str, Any]:
        if application["name"] != "bad" or application.get("args") == {"version": 1}:
            return runs(application)
        failed = {"status": "DEPLOY_FAILED", "message": "no module named x"}
        return runs(application) | failed

    ray_api.report = report


def interrupt(times: int, ray_api: FakeRay) -> None:
    """Press Ctrl-C when a config has been sent, so many times."""
    left = iter(range(times))

    def press(config: Config) -> str:
        if next(left, None) is not None:
            _thread.interrupt_main()
        return ""

    ray_api.refuse = press


def change(rollout: Rollout, way: str) -> None:
    arguments = [] if way == "roll_back" else [config("third")]
    getattr(rollout, way)(*arguments)


def test_what_is_deployed_is_the_current_release_and_sent_again_it_is_no_change(
    rollout, releases, ray_api
):
    names = ("first", "second", "second", "first")
    assert [rollout.deploy(config(name)) for name in names] == [True, True, False, True]
    assert [each["applications"][0]["name"] for each in ray_api.sent] == list(names)
    assert releases.current() == config("first")
    assert rollout.plan(config("b")) == (config("first"), config("b"))
    assert len(ray_api.sent) == 4, "a plan sends nothing"


def test_after_a_bad_config_the_current_release_is_restored(rollout, releases, ray_api, bad):
    rollout.deploy(config("good"))
    with pytest.raises(DeployError, match=r"no module named x. The previous release still serves"):
        rollout.deploy(config("bad"))
    assert ray_api.sent[-1] == releases.current() == config("good")
    releases.add(releases.stage(config("bad")))
    rollout.deploy(config("good"))
    with pytest.raises(DeployError):
        rollout.roll_back()
    assert releases.current() == config("good")


def test_the_first_config_has_no_previous_release(rollout, releases, bad):
    with pytest.raises(DeployError, match="no previous release to restore"):
        rollout.deploy(config("bad"))
    assert releases.current() is None


def test_several_applications_are_restored_one_after_the_other(rollout, releases, ray_api, bad):
    def versions(a: int, bad: int, c: int) -> Config:
        numbers = {"a": a, "bad": bad, "c": c}
        applications = [
            {"name": name, "import_path": "elsewhere:build", "args": {"version": number}}
            for name, number in numbers.items()
        ]
        return {"applications": applications, "http_options": {"port": 8100}}

    releases.add(releases.stage(versions(1, 1, 1)))
    with pytest.raises(DeployError, match="The previous release still serves"):
        rollout.deploy(versions(2, 2, 2))
    sent = [versions(2, 1, 1), versions(2, 2, 1), versions(1, 2, 1), versions(1, 1, 1)]
    assert ray_api.sent == sent
    assert releases.current() == versions(1, 1, 1)


@pytest.mark.parametrize("way", ["deploy", "roll_back"])
def test_after_ctrl_c_the_current_release_is_restored(
    way, rollout, releases, ray_api, two_releases, warnings
):
    interrupt(1, ray_api)
    with pytest.raises(KeyboardInterrupt, match=r"Interrupted. The previous release still serves"):
        change(rollout, way)
    assert ray_api.sent[-1] == releases.current() == config("second")
    assert releases.previous() == config("first")
    assert "restoring the previous release" in warnings[-1]


def test_a_second_ctrl_c_ends_at_once_with_advice(rollout, releases, ray_api):
    rollout.deploy(config("first"))
    interrupt(2, ray_api)
    with pytest.raises(KeyboardInterrupt, match="Run `greenwave deploy` or `greenwave rollback`"):
        rollout.deploy(config("second"))
    assert ray_api.sent[1:] == [config("second"), config("first")]
    assert releases.current() == config("first")


@pytest.mark.parametrize("way", ["deploy", "prepare_start"])
def test_whatever_replaces_a_canary_or_a_promoted_policy_warns_of_it(way, rollout, warnings):
    def served(**user_config: object) -> Config:
        deployments = [{"name": "Inference", "user_config": user_config}]
        built = {"import_path": "serve_app.inference:build", "deployments": deployments}
        return config("inference", **built)

    canary = {"agent_path": "/new.th", "mode": "canary", "share": 0.1, "states": "new"}
    tried = served(agent_path="/promoted.th", states="promoted", canary=canary)
    for _ in range(2):
        rollout.deploy(tried)
    getattr(rollout, way)(served(agent_path="/old.th"))
    ends, replaced = warnings
    assert ends.startswith("The canary /new.th ends")
    assert replaced.startswith("The promoted policy /promoted.th is replaced")


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


WAYS = ("deploy", "roll_back", "prepare_start", "finish_start")
NO_ROOM = r"needs 1 CPUs, .* has 0.5 .* Nothing has been changed"


@pytest.mark.parametrize(
    ("obstacle", "way", "reason"),
    [
        *(("disk", way, "No space left on device. Nothing has been changed") for way in WAYS[:3]),
        *(("room", way, NO_ROOM) for way in WAYS[:2]),
        *(("rollout", way, "Another deploy is in progress") for way in WAYS if way != WAYS[2]),
    ],
)
def test_what_is_refused_sends_nothing(
    obstacle, way, reason, rollout, releases, ray_api, two_releases, monkeypatch
):
    with contextlib.ExitStack() as other:
        if obstacle == "disk":
            monkeypatch.setattr(os, "fsync", full_disk)
        elif obstacle == "room":
            ray_api.nodes = [node(cpus=0.5, megabytes=8000)]
        else:
            other.enter_context(releases.rollout_lock())
        with pytest.raises(DeployError, match=reason):
            change(rollout, way)
    assert ray_api.sent == []
    assert releases.wanted() == config("second")


def test_a_disk_that_fills_up_during_a_deploy_does_not_matter(
    rollout, releases, ray_api, monkeypatch
):
    ray_api.refuse = lambda config: monkeypatch.setattr(os, "fsync", full_disk) or ""
    rollout.deploy(config("good"))
    assert releases.current() == config("good")


def test_a_restored_release_needs_no_room(rollout, ray_api, bad):
    rollout.deploy(config("good"))
    ray_api.nodes = [node(cpus=0.5, megabytes=8000)]
    small = config("bad", deployments=[{"ray_actor_options": {"num_cpus": 0.1}}])
    with pytest.raises(DeployError, match="The previous release still serves"):
        rollout.deploy(small)
    assert ray_api.sent[-1] == config("good")


@pytest.mark.parametrize("way", ["deploy", "plan"])
def test_applications_that_a_config_removes_are_named_before(way, rollout, ray_api, warnings):
    ray_api.serve(*config("loans")["applications"], *config("a city")["applications"])
    getattr(rollout, way)(config("loans"))
    sentence = "A deploy ends what the config lacks: a city. Hidden states stay, for an application"
    assert warnings == [f"{sentence} of the same name."]


def test_a_config_that_can_outgrow_its_cluster_warns(rollout, ray_api, warnings):
    growing = config("good", deployments=[{"autoscaling_config": {"max_replicas": 9}}])
    rollout.deploy(growing)
    (warning,) = warnings
    assert "can grow to 9 CPUs" in warning
    assert ray_api.sent == [growing]


def test_the_supervisor_deploys_a_pending_config_which_is_a_release_once_it_runs(
    rollout, releases, ray_api, bad
):
    rollout.prepare_start(config("good"))
    ray_api.serve(*config("good")["applications"])
    rollout.finish_start(config("good"))
    assert releases.current() == config("good")
    rollout.prepare_start(config("bad"))
    ray_api.serve(*config("bad")["applications"])
    with pytest.raises(DeployError):
        rollout.finish_start(config("bad"))
    assert releases.wanted() == config("good")
    assert ray_api.sent == [], "what has not started is stopped"


def test_a_deploy_fails_if_ray_restarts_with_another_release(rollout, releases, ray_api):
    rollout.deploy(config("first"))
    other = config("second", args={"version": 2})["applications"][0]
    ray_api.report = lambda application: runs(application) | {"deployed_app_config": other}
    with pytest.raises(DeployError, match="Ray was restarted meanwhile"):
        rollout.deploy(config("second"))
    assert releases.current() == config("first")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (0, "does not answer: "),
        (401, "refuses Ray's token"),
        (403, "refuses Ray's token"),
        (500, "answers 500"),
    ],
)
def test_a_cluster_that_does_not_serve_is_reported_in_one_line(status, reason, rollout, ray_api):
    ray_api.status = status
    with pytest.raises(DeployError, match=reason) as refusal:
        rollout.deploy(config("good"))
    assert len(str(refusal.value).splitlines()) == 1
    assert ray_api.sent == []


def test_while_a_rollout_waits_the_supervisor_may_deploy_and_no_other_rollout(
    rollout, releases, ray_api
):
    refused: list[str] = []

    def report(application: Config) -> dict[str, Any]:
        with releases.deploy_lock():  # would block indefinitely
            pass
        try:
            with releases.rollout_lock():
                refused.append("")
        except DeployError as refusal:
            refused.append(str(refusal))
        return runs(application)

    ray_api.report = report
    rollout.deploy(config("good"))
    assert set(refused) == {"Another deploy is in progress."}


def test_rolling_back_deploys_the_one_before_unless_there_is_none(
    rollout, releases, ray_api, two_releases
):
    rollout.roll_back()
    assert ray_api.sent == [config("first")]
    assert releases.current() == config("first")
    with pytest.raises(DeployError, match="no release before the current one"):
        rollout.roll_back()
    assert len(ray_api.sent) == 1


@pytest.mark.parametrize(("front", "sent"), [(8100, 8100), (None, 8000)])
def test_an_instance_keeps_serves_port_and_a_cluster_uses_that_of_the_config(
    front, sent, ray_api, releases
):
    wanted = config("good") | {"http_options": {"host": "0.0.0.0", "port": 8000}}
    Rollout(ray_api.dashboard, front, releases, timeout_s=10).deploy(wanted)
    assert ray_api.sent[0]["http_options"] == {"host": "0.0.0.0", "port": sent}
