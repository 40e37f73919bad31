"""A config that does not run changes nothing: the release before it is put back."""

from __future__ import annotations

import errno
import os
from typing import Any

import httpx
import pytest

from serve_app.rollout import releases as releases_module
from serve_app.rollout import rollout as rollout_module
from serve_app.rollout.capacity import Node
from serve_app.rollout.code_version import stamp
from serve_app.rollout.deploy import DeployError
from serve_app.rollout.releases import Releases
from serve_app.rollout.rollout import Rollout

Config = dict[str, Any]


def config(name: str) -> Config:
    application = {"name": name, "import_path": "elsewhere:build"}
    return {"applications": [application], "http_options": {"port": 8100}}


class FakeCluster:
    """Runs what it is sent, but for what is named bad, which runs in one config at most."""

    def __init__(self) -> None:
        self.sent: list[Config] = []
        self.good: Config | None = None
        self.restarted = self.away = False
        self.interrupts = 0
        self.nodes = [Node(cpus=4.0, megabytes=8000.0)]

    def nodes_of(self, url: str) -> list[Node]:
        if self.away:
            raise httpx.ConnectError("connection refused")
        return self.nodes

    def deploy(self, url: str, config: Config) -> None:
        self.sent.append(config)
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt

    def serves(self, url: str, config: Config) -> bool:
        return not self.restarted

    def wait(self, url: str, names: list[str], *how: object) -> None:
        if "bad" in names and self.sent[-1:] != [self.good]:
            raise DeployError("Application bad is DEPLOY_FAILED: no module named x.")


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
    monkeypatch.setattr(releases_module, "PATIENCE_S", 0.0)
    return Releases(tmp_path)


@pytest.fixture
def rollout(releases, cluster):
    return Rollout("http://nowhere", 8100, releases, timeout_s=1)


def test_a_good_config_becomes_the_current_release(rollout, releases):
    rollout.deploy(config("good"))
    assert releases.current() == config("good")


def test_the_current_release_is_sent_again_and_is_no_change(rollout, cluster):
    changes = [rollout.deploy(config(name)) for name in ("first", "second", "second", "first")]
    assert changes == [True, True, False, True]
    assert len(cluster.sent) == 4


def test_after_a_bad_one_the_release_before_is_put_back_and_the_reason_told(
    rollout, releases, cluster
):
    rollout.deploy(config("good"))
    with pytest.raises(DeployError, match=r"no module named x. The release before it serves on"):
        rollout.deploy(config("bad"))
    assert cluster.sent[-1] == releases.current() == config("good")


def test_what_was_deployed_before_the_bad_one_of_several_is_put_back_step_by_step(
    rollout, releases, cluster
):
    def versions(a: int, bad: int, c: int) -> Config:
        numbers = {"a": a, "bad": bad, "c": c}
        applications = [
            {"name": name, "import_path": "elsewhere:build", "args": {"version": number}}
            for name, number in numbers.items()
        ]
        return {"applications": applications, "http_options": {"port": 8100}}

    cluster.good = versions(1, 1, 1)
    releases.add(releases.stage(cluster.good))
    with pytest.raises(DeployError, match="The release before it serves on"):
        rollout.deploy(versions(2, 2, 2))
    sent = [versions(2, 1, 1), versions(2, 2, 1), versions(1, 2, 1), versions(1, 1, 1)]
    assert cluster.sent == sent
    assert releases.current() == cluster.good


@pytest.mark.parametrize("way", ["deploy", "roll_back"])
def test_after_ctrl_c_the_release_before_is_put_back_and_that_is_told(
    way, rollout, releases, cluster
):
    for name in ("first", "second"):
        rollout.deploy(config(name))
    said: list[str] = []
    rollout.say = said.append
    cluster.interrupts = 1
    with pytest.raises(KeyboardInterrupt, match=r"Interrupted. The release before it serves on"):
        getattr(rollout, way)(*[] if way == "roll_back" else [config("third")])
    assert cluster.sent[-1] == releases.current() == config("second")
    assert releases.previous() == config("first")
    assert len(said) == 1
    assert "is put back" in said[0]


def test_a_second_ctrl_c_ends_at_once_and_says_what_to_do(rollout, releases, cluster):
    rollout.deploy(config("first"))
    cluster.interrupts = 2
    with pytest.raises(KeyboardInterrupt, match="Run `make deploy` or `make rollback`"):
        rollout.deploy(config("second"))
    assert cluster.sent[1:] == [config("second"), config("first")]
    assert releases.current() == config("first")


def test_ctrl_c_while_ray_starts_is_left_to_who_started_it(rollout, cluster, monkeypatch):
    rollout.deploy(config("first"))
    rollout.announce(config("second"))

    def wait(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rollout_module, "wait_until_running", wait)
    with pytest.raises(KeyboardInterrupt):
        rollout.finish_start(config("second"))
    assert cluster.sent == [config("first")]


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("way", ["deploy", "roll_back", "announce"])
def test_on_a_full_disk_nothing_is_sent_and_the_reason_is_told(
    way, rollout, releases, cluster, monkeypatch
):
    for name in ("first", "second"):
        rollout.deploy(config(name))
    cluster.sent.clear()
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(DeployError, match=r"No space left on device. Nothing has been changed"):
        getattr(rollout, way)(*[] if way == "roll_back" else [config("third")])
    assert cluster.sent == []
    assert releases.wanted() == config("second")


def test_a_disk_that_is_full_once_the_cluster_was_sent_a_config_does_not_matter(
    rollout, releases, cluster, monkeypatch
):
    def deploy(url: str, config: Config) -> None:
        monkeypatch.setattr(os, "fsync", full_disk)
        cluster.deploy(url, config)

    monkeypatch.setattr(rollout_module, "deploy", deploy)
    rollout.deploy(config("good"))
    assert releases.current() == config("good")


@pytest.mark.parametrize("way", ["deploy", "roll_back"])
def test_where_there_is_no_room_nothing_is_sent(way, rollout, releases, cluster):
    for name in ("first", "second"):
        rollout.deploy(config(name))
    cluster.sent.clear()
    cluster.nodes = [Node(cpus=0.5, megabytes=8000.0)]
    with pytest.raises(DeployError, match=r"needs 1 CPUs, .* has 0.5 .* Nothing has been changed"):
        getattr(rollout, way)(*[] if way == "roll_back" else [config("third")])
    assert cluster.sent == []
    assert releases.wanted() == config("second")


def test_what_is_put_back_is_sent_wherever_it_served_before(rollout, releases, cluster):
    rollout.deploy(config("good"))
    cluster.nodes = [Node(cpus=0.5, megabytes=8000.0)]
    small = config("bad")
    small["applications"][0]["deployments"] = [{"ray_actor_options": {"num_cpus": 0.1}}]
    with pytest.raises(DeployError, match="The release before it serves on"):
        rollout.deploy(small)
    assert cluster.sent[-1] == config("good")


def test_a_config_that_can_outgrow_its_cluster_is_told(rollout, cluster):
    said: list[str] = []
    rollout.say = said.append
    growing = config("good")
    growing["applications"][0]["deployments"] = [{"autoscaling_config": {"max_replicas": 9}}]
    rollout.deploy(growing)
    assert len(said) == 1
    assert "can grow to 9 CPUs" in said[0]
    assert cluster.sent == [growing]


def test_the_first_release_of_all_has_none_before_it(rollout, releases):
    with pytest.raises(DeployError, match="no release before it"):
        rollout.deploy(config("bad"))
    assert releases.current() is None


def test_a_bad_announced_config_is_not_wanted_any_more(rollout, releases):
    rollout.deploy(config("good"))
    rollout.announce(config("bad"))
    with pytest.raises(DeployError):
        rollout.finish_start(config("bad"))
    assert releases.wanted() == config("good")


def test_an_announced_config_is_sent_by_the_node_alone(rollout, releases, cluster):
    rollout.announce(config("good"))
    rollout.finish_start(config("good"))
    assert cluster.sent == []
    assert releases.current() == config("good")


def test_a_restart_of_ray_in_between_is_no_success(rollout, releases, cluster):
    rollout.deploy(config("first"))
    cluster.restarted = True
    with pytest.raises(DeployError, match="Ray was started again meanwhile"):
        rollout.deploy(config("second"))
    assert releases.current() == config("first")


def test_a_cluster_that_does_not_answer_is_told_in_a_sentence(rollout, cluster):
    cluster.away = True
    with pytest.raises(DeployError, match="does not answer: connection refused"):
        rollout.deploy(config("good"))


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "refuses Ray's token"), (403, "refuses Ray's token"), (500, "500")]
)
def test_a_cluster_that_refuses_is_told_in_a_sentence(
    status, reason, rollout, cluster, monkeypatch
):
    def nodes_of(url: str) -> list[Node]:
        request = httpx.Request("GET", url)
        response = httpx.Response(status, request=request)
        raise httpx.HTTPStatusError("two\nlines", request=request, response=response)

    monkeypatch.setattr(rollout_module, "nodes_of", nodes_of)
    with pytest.raises(DeployError, match=reason) as refusal:
        rollout.deploy(config("good"))
    assert len(str(refusal.value).splitlines()) == 1
    assert cluster.sent == []


@pytest.mark.parametrize("way", ["deploy", "roll_back", "finish_start"])
def test_a_second_rollout_is_refused_and_changes_nothing(way, rollout, releases, cluster):
    for name in ("first", "second"):
        rollout.deploy(config(name))
    cluster.sent.clear()
    with releases.rollout(), pytest.raises(DeployError, match="Another deploy is under way"):
        getattr(rollout, way)(*[] if way == "roll_back" else [config("third")])
    assert cluster.sent == []
    assert releases.wanted() == config("second")


def test_nobody_else_may_deploy_until_a_bad_config_is_replaced(
    rollout, releases, cluster, monkeypatch
):
    rollout.deploy(config("good"))
    refusals: list[str] = []

    def wait(url: str, names: list[str], *how: object) -> None:
        with pytest.raises(DeployError) as refusal, releases.rollout():
            pytest.fail("two deploy at once")
        refusals.append(str(refusal.value))
        cluster.wait(url, names, *how)

    monkeypatch.setattr(rollout_module, "wait_until_running", wait)
    with pytest.raises(DeployError):
        rollout.deploy(config("bad"))
    assert refusals == ["Another deploy is under way."] * 2


def test_the_keeper_of_ray_gets_its_turn_while_a_rollout_waits(
    rollout, releases, cluster, monkeypatch
):
    turns: list[str] = []

    def wait(url: str, names: list[str], *how: object) -> None:
        with releases.turn():  # would block for ever
            turns.extend(names)

    monkeypatch.setattr(rollout_module, "wait_until_running", wait)
    rollout.deploy(config("good"))
    assert turns == ["good"]


def test_rolling_back_deploys_the_one_before(rollout, releases, cluster):
    rollout.deploy(config("first"))
    rollout.deploy(config("second"))
    rollout.roll_back()
    assert cluster.sent[-1] == releases.current() == config("first")


def test_there_is_no_way_back_from_the_first(rollout, cluster):
    rollout.deploy(config("first"))
    with pytest.raises(DeployError, match="no release before the current one"):
        rollout.roll_back()
    assert len(cluster.sent) == 1


def test_a_release_that_does_not_run_any_more_leaves_the_present_one(rollout, releases):
    releases.add(releases.stage(config("bad")))
    rollout.deploy(config("good"))
    with pytest.raises(DeployError):
        rollout.roll_back()
    assert releases.current() == config("good")


def test_serve_listens_where_it_listened_before(rollout, cluster):
    rollout.deploy(config("good") | {"http_options": {"host": "127.0.0.1", "port": 8000}})
    assert cluster.sent[0]["http_options"] == {"host": "127.0.0.1", "port": 8100}


def test_serve_listens_where_the_config_says_on_a_cluster_of_ones_own(releases, cluster):
    wanted = config("good") | {"http_options": {"host": "0.0.0.0", "port": 8000}}
    Rollout("http://nowhere", None, releases, timeout_s=1).deploy(wanted)
    assert cluster.sent[0]["http_options"] == {"host": "0.0.0.0", "port": 8000}


def test_every_application_of_ours_bears_the_version_of_its_code():
    stamped = stamp({"applications": [{"name": "flow", "import_path": "serve_app.flow:build"}]})
    (application,) = stamped["applications"]
    assert len(application["runtime_env"]["env_vars"]["GREENWAVE_VERSION"]) == 16
