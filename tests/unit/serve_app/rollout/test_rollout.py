"""A config that does not run changes nothing: the current release is restored."""

from __future__ import annotations

import errno
import os
from typing import Any

import httpx
import pytest

from serve_app.errors import DeployError
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout import releases as releases_module
from serve_app.rollout import rollout as rollout_module
from serve_app.rollout.capacity import Node
from serve_app.rollout.releases import Releases
from serve_app.rollout.rollout import Rollout

Config = dict[str, Any]
DASHBOARD = RayDashboard("http://nowhere")


def config(name: str) -> Config:
    application = {"name": name, "import_path": "elsewhere:build"}
    return {"applications": [application], "http_options": {"port": 8100}}


class FakeCluster:
    """Runs every config, except for an application named bad, which runs in ``good`` only."""

    def __init__(self) -> None:
        self.sent: list[Config] = []
        self.good: Config | None = None
        self.restarted = self.away = False
        self.interrupts = 0
        self.nodes = [Node(cpus=4.0, megabytes=8000.0)]

    def nodes_of(self, dashboard: RayDashboard) -> list[Node]:
        if self.away:
            raise httpx.ConnectError("connection refused")
        return self.nodes

    def deploy(self, dashboard: RayDashboard, config: Config) -> None:
        self.sent.append(config)
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt

    def serves(self, dashboard: RayDashboard, config: Config) -> bool:
        return not self.restarted

    def wait(self, dashboard: RayDashboard, names: list[str], *how: object) -> None:
        if "bad" in names and self.sent[-1:] != [self.good]:
            raise DeployError("Application bad is DEPLOY_FAILED: no module named x.")


def arguments(way: str) -> list[Config]:
    return [] if way == "roll_back" else [config("third")]


@pytest.fixture
def two_releases(rollout, cluster):
    for name in ("first", "second"):
        rollout.deploy(config(name))
    cluster.sent.clear()


@pytest.fixture
def cluster(monkeypatch):
    fake = FakeCluster()
    monkeypatch.setattr(rollout_module, "nodes_of", fake.nodes_of)
    monkeypatch.setattr(rollout_module, "deploy", fake.deploy)
    monkeypatch.setattr(rollout_module, "wait_until_running", fake.wait)
    monkeypatch.setattr(rollout_module, "serves", fake.serves)
    return fake


@pytest.fixture
def releases(tmp_path, monkeypatch):
    monkeypatch.setattr(releases_module, "LOCK_TIMEOUT_S", 0.0)
    return Releases(tmp_path)


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def rollout(releases, cluster, warnings):
    return Rollout(DASHBOARD, 8100, releases, timeout_s=1, warn=warnings.append)


def test_a_good_config_becomes_the_current_release(rollout, releases):
    rollout.deploy(config("good"))
    assert releases.current() == config("good")


def test_a_plan_shows_both_releases_and_sends_nothing(rollout, releases, cluster):
    rollout.deploy(config("a"))
    sent = len(cluster.sent)
    current, planned = rollout.plan(config("b"))
    assert (current, planned["applications"][0]["name"]) == (releases.current(), "b")
    assert len(cluster.sent) == sent


def test_the_current_release_is_sent_again_and_is_no_change(rollout, cluster):
    changes = [rollout.deploy(config(name)) for name in ("first", "second", "second", "first")]
    assert changes == [True, True, False, True]
    assert len(cluster.sent) == 4


def test_after_a_bad_config_the_current_release_is_restored(rollout, releases, cluster):
    rollout.deploy(config("good"))
    with pytest.raises(DeployError, match=r"no module named x. The previous release still serves"):
        rollout.deploy(config("bad"))
    assert cluster.sent[-1] == releases.current() == config("good")


def test_several_applications_are_restored_one_after_the_other(rollout, releases, cluster):
    def versions(a: int, bad: int, c: int) -> Config:
        numbers = {"a": a, "bad": bad, "c": c}
        applications = [
            {"name": name, "import_path": "elsewhere:build", "args": {"version": number}}
            for name, number in numbers.items()
        ]
        return {"applications": applications, "http_options": {"port": 8100}}

    cluster.good = versions(1, 1, 1)
    releases.add(releases.stage(cluster.good))
    with pytest.raises(DeployError, match="The previous release still serves"):
        rollout.deploy(versions(2, 2, 2))
    sent = [versions(2, 1, 1), versions(2, 2, 1), versions(1, 2, 1), versions(1, 1, 1)]
    assert cluster.sent == sent
    assert releases.current() == cluster.good


@pytest.mark.parametrize("way", ["deploy", "roll_back"])
def test_after_ctrl_c_the_current_release_is_restored(
    way, rollout, releases, cluster, two_releases, warnings
):
    cluster.interrupts = 1
    with pytest.raises(KeyboardInterrupt, match=r"Interrupted. The previous release still serves"):
        getattr(rollout, way)(*arguments(way))
    assert cluster.sent[-1] == releases.current() == config("second")
    assert releases.previous() == config("first")
    (warning,) = warnings
    assert "restoring the previous release" in warning


def test_a_second_ctrl_c_ends_at_once_with_advice(rollout, releases, cluster):
    rollout.deploy(config("first"))
    cluster.interrupts = 2
    with pytest.raises(KeyboardInterrupt, match="Run `greenwave deploy` or `greenwave rollback`"):
        rollout.deploy(config("second"))
    assert cluster.sent[1:] == [config("second"), config("first")]
    assert releases.current() == config("first")


@pytest.mark.parametrize("way", ["deploy", "prepare_start"])
def test_whatever_replaces_a_canary_warns_of_it(way, rollout, monkeypatch, warnings):
    rollout.deploy(config("first"))
    monkeypatch.setattr(rollout_module, "replaced_by", lambda after, before: ["The canary ends."])
    getattr(rollout, way)(config("second"))
    assert warnings == ["The canary ends."]


def test_ctrl_c_while_ray_starts_restores_nothing(rollout, cluster, monkeypatch):
    rollout.deploy(config("first"))
    rollout.prepare_start(config("second"))

    def wait(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rollout_module, "wait_until_running", wait)
    with pytest.raises(KeyboardInterrupt):
        rollout.finish_start(config("second"))
    assert cluster.sent == [config("first")]


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("way", ["deploy", "roll_back", "prepare_start"])
def test_on_a_full_disk_nothing_is_sent(way, rollout, releases, cluster, two_releases, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(DeployError, match=r"No space left on device. Nothing has been changed"):
        getattr(rollout, way)(*arguments(way))
    assert cluster.sent == []
    assert releases.wanted() == config("second")


def test_a_disk_that_fills_up_during_a_deploy_does_not_matter(
    rollout, releases, cluster, monkeypatch
):
    def deploy(dashboard: RayDashboard, config: Config) -> None:
        monkeypatch.setattr(os, "fsync", full_disk)
        cluster.deploy(dashboard, config)

    monkeypatch.setattr(rollout_module, "deploy", deploy)
    rollout.deploy(config("good"))
    assert releases.current() == config("good")


@pytest.mark.parametrize("way", ["deploy", "roll_back"])
def test_without_room_nothing_is_sent(way, rollout, releases, cluster, two_releases):
    cluster.nodes = [Node(cpus=0.5, megabytes=8000.0)]
    with pytest.raises(DeployError, match=r"needs 1 CPUs, .* has 0.5 .* Nothing has been changed"):
        getattr(rollout, way)(*arguments(way))
    assert cluster.sent == []
    assert releases.wanted() == config("second")


def test_a_restored_release_needs_no_room(rollout, releases, cluster):
    rollout.deploy(config("good"))
    cluster.nodes = [Node(cpus=0.5, megabytes=8000.0)]
    small = config("bad")
    small["applications"][0]["deployments"] = [{"ray_actor_options": {"num_cpus": 0.1}}]
    with pytest.raises(DeployError, match="The previous release still serves"):
        rollout.deploy(small)
    assert cluster.sent[-1] == config("good")


def test_a_config_that_can_outgrow_its_cluster_warns(rollout, cluster, warnings):
    growing = config("good")
    growing["applications"][0]["deployments"] = [{"autoscaling_config": {"max_replicas": 9}}]
    rollout.deploy(growing)
    (warning,) = warnings
    assert "can grow to 9 CPUs" in warning
    assert cluster.sent == [growing]


def test_the_first_config_has_no_previous_release(rollout, releases):
    with pytest.raises(DeployError, match="no previous release to restore"):
        rollout.deploy(config("bad"))
    assert releases.current() is None


def test_a_bad_pending_config_is_discarded(rollout, releases):
    rollout.deploy(config("good"))
    rollout.prepare_start(config("bad"))
    with pytest.raises(DeployError):
        rollout.finish_start(config("bad"))
    assert releases.wanted() == config("good")


def test_a_pending_config_is_not_sent_by_the_rollout(rollout, releases, cluster):
    rollout.prepare_start(config("good"))
    rollout.finish_start(config("good"))
    assert cluster.sent == []
    assert releases.current() == config("good")


def test_a_deploy_fails_if_ray_restarts_with_another_release(rollout, releases, cluster):
    rollout.deploy(config("first"))
    cluster.restarted = True
    with pytest.raises(DeployError, match="Ray was restarted meanwhile"):
        rollout.deploy(config("second"))
    assert releases.current() == config("first")


def test_a_cluster_that_does_not_answer_is_reported(rollout, cluster):
    cluster.away = True
    with pytest.raises(DeployError, match="does not answer: connection refused"):
        rollout.deploy(config("good"))


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "refuses Ray's token"), (403, "refuses Ray's token"), (500, "500")]
)
def test_a_cluster_that_refuses_is_reported_in_one_line(
    status, reason, rollout, cluster, monkeypatch
):
    def nodes_of(dashboard: RayDashboard) -> list[Node]:
        request = httpx.Request("GET", dashboard.url)
        response = httpx.Response(status, request=request)
        raise httpx.HTTPStatusError("two\nlines", request=request, response=response)

    monkeypatch.setattr(rollout_module, "nodes_of", nodes_of)
    with pytest.raises(DeployError, match=reason) as refusal:
        rollout.deploy(config("good"))
    assert len(str(refusal.value).splitlines()) == 1
    assert cluster.sent == []


@pytest.mark.parametrize("way", ["deploy", "roll_back", "finish_start"])
def test_a_second_rollout_is_refused(way, rollout, releases, cluster, two_releases):
    with releases.rollout_lock(), pytest.raises(DeployError, match="Another deploy is in progress"):
        getattr(rollout, way)(*arguments(way))
    assert cluster.sent == []
    assert releases.wanted() == config("second")


def test_other_rollouts_are_excluded_until_a_bad_config_is_replaced(
    rollout, releases, cluster, monkeypatch
):
    rollout.deploy(config("good"))
    refusals: list[str] = []

    def wait(dashboard: RayDashboard, names: list[str], *how: object) -> None:
        with pytest.raises(DeployError) as refusal, releases.rollout_lock():
            pytest.fail("two deploy at once")
        refusals.append(str(refusal.value))
        cluster.wait(dashboard, names, *how)

    monkeypatch.setattr(rollout_module, "wait_until_running", wait)
    with pytest.raises(DeployError):
        rollout.deploy(config("bad"))
    assert refusals == ["Another deploy is in progress."] * 2


def test_the_supervisor_of_ray_may_deploy_while_a_rollout_waits(
    rollout, releases, cluster, monkeypatch
):
    deployed: list[str] = []

    def wait(dashboard: RayDashboard, names: list[str], *how: object) -> None:
        with releases.deploy_lock():  # would block indefinitely
            deployed.extend(names)

    monkeypatch.setattr(rollout_module, "wait_until_running", wait)
    rollout.deploy(config("good"))
    assert deployed == ["good"]


def test_rolling_back_deploys_the_one_before(rollout, releases, cluster, two_releases):
    rollout.roll_back()
    assert cluster.sent[-1] == releases.current() == config("first")


def test_the_first_release_cannot_be_rolled_back(rollout, cluster):
    rollout.deploy(config("first"))
    with pytest.raises(DeployError, match="no release before the current one"):
        rollout.roll_back()
    assert len(cluster.sent) == 1


def test_a_failed_rollback_keeps_the_current_release(rollout, releases):
    releases.add(releases.stage(config("bad")))
    rollout.deploy(config("good"))
    with pytest.raises(DeployError):
        rollout.roll_back()
    assert releases.current() == config("good")


def test_an_instance_keeps_serves_port(rollout, cluster):
    rollout.deploy(config("good") | {"http_options": {"host": "127.0.0.1", "port": 8000}})
    assert cluster.sent[0]["http_options"] == {"host": "127.0.0.1", "port": 8100}


def test_a_cluster_uses_the_port_of_the_config(releases, cluster):
    wanted = config("good") | {"http_options": {"host": "0.0.0.0", "port": 8000}}
    Rollout(DASHBOARD, None, releases, timeout_s=1).deploy(wanted)
    assert cluster.sent[0]["http_options"] == {"host": "0.0.0.0", "port": 8000}
