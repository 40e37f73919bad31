"""The keeper of Ray starts it, takes over one that runs, and deploys what is wanted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from serve_app.processes.instance import InstanceError
from serve_app.processes.supervision import node as node_module
from serve_app.processes.supervision.node import (
    DEPLOY_PAUSE_S,
    REFUSED_PAUSE_S,
    STAGE_S,
    VITAL,
    Node,
)
from serve_app.processes.supervision.ray_sessions import Sessions
from serve_app.processes.supervision.restarts import CannotRunError
from serve_app.rollout.deploy import DeployError
from serve_app.rollout.releases import Releases

# A "head" with two children that bear the names of Ray's vital processes.
HEAD = """
import ctypes, os, sys
for name in sys.argv[1:]:
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, name.encode())
        os.write(1, b"up" + bytes([10]))
        sys.stdin.read()
        os._exit(0)
sys.stdin.read()
"""


class FakeInstance:
    """Starts the head above instead of Ray."""

    dashboard_url = "http://nowhere"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refusal: str | None = None
        self.process: subprocess.Popen[str] | None = None

    def head(self) -> psutil.Process | None:
        lives = self.process and self.process.poll() is None
        return psutil.Process(self.process.pid) if self.process and lives else None

    def start(self) -> None:
        self.calls.append("start")
        if self.refusal:
            raise InstanceError(self.refusal)
        self.process = subprocess.Popen(
            [sys.executable, "-c", HEAD, *VITAL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        assert [self.process.stdout.readline() for _ in VITAL] == ["up\n"] * len(VITAL)

    def wait_until_started(self, ended: object) -> None:
        self.calls.append("take over")

    def stop_ray(self, patience_s: float = 15.0) -> None:
        self.calls.append(f"stop within {patience_s:.0f} s")


@pytest.fixture
def instance() -> Iterator[FakeInstance]:
    fake = FakeInstance()
    yield fake
    if fake.process:
        for child in psutil.Process(fake.process.pid).children():
            child.kill()
        fake.process.kill()
        fake.process.communicate()


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    return Releases(tmp_path / "releases")


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def node(instance: FakeInstance, releases: Releases, tmp_path: Path, pauses: list[float]) -> Node:
    sessions = Sessions(tmp_path / "note", tmp_path)
    return Node(lambda: instance, releases, sessions, pauses.append)  # type: ignore[arg-type,return-value]


class FakeCluster:
    """Takes every config; Ray dies after the last call of it that a test asks for."""

    def __init__(self) -> None:
        self.applications: dict[str, Any] = {}
        self.deployed: list[dict[str, Any]] = []
        self.whole: Callable[[], dict[str, Any] | None] = lambda: None
        self.half_way = False
        self.errors: list[Exception] = []
        self.refusals: list[DeployError] = []
        self.after: Callable[[], None] = lambda: None

    def statuses(self, url: str) -> dict[str, Any]:
        if self.errors:
            raise self.errors.pop(0)
        if self.applications and not self.half_way:
            self.after()
        return self.applications

    def deploy(self, url: str, config: dict[str, Any]) -> None:
        self.deployed.append(config)
        if self.refusals:
            raise self.refusals.pop()
        if config == self.whole():
            self.after()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, releases: Releases) -> FakeCluster:
    fake = FakeCluster()
    fake.whole = releases.wanted
    monkeypatch.setattr(node_module, "statuses", fake.statuses)
    monkeypatch.setattr(node_module, "deploy", fake.deploy)
    monkeypatch.setattr(node_module, "is_building", lambda url: False)
    monkeypatch.setattr(node_module, "is_deploying", lambda url: False)
    return fake


def kill_vital(instance: FakeInstance, name: str) -> None:
    head = instance.head()
    assert head
    (victim,) = [child for child in head.children() if child.name() == name]
    victim.kill()


def test_what_an_earlier_life_left_is_killed_before_ray_starts(node, instance):
    node.begin()
    assert instance.calls == ["stop within 0 s", "start"]


def test_a_ray_that_runs_is_taken_over(node, instance):
    began = node.begin()
    instance.calls.clear()
    assert node.begin() == pytest.approx(began)
    assert instance.calls == ["take over"]


def test_a_start_that_is_refused_is_told_as_it_is(node, instance):
    instance.refusal = "Port 8000 (for http) is taken by nginx (process 7)."
    with pytest.raises(CannotRunError, match="taken by nginx"):
        node.begin()


@pytest.mark.parametrize("name", VITAL)
def test_the_death_of_a_vital_process_ends_the_life_of_all(name, node, instance, cluster):
    node.begin()
    kill_vital(instance, name)
    assert node.wait() == f"Ray has gone: {name} has died."
    assert instance.calls[-1] == "stop within 0 s"


FIRST = {"name": "inference", "import_path": "serve_app.inference:build"}


def config(**deployment: object) -> dict[str, Any]:
    flow = {"name": "flow", "import_path": "serve_app.flow:build"}
    return {"applications": [FIRST, {**flow, "deployments": [{"name": "Flow", **deployment}]}]}


@pytest.fixture
def mortal(node: Node, instance: FakeInstance, cluster: FakeCluster) -> Node:
    """Begin the life of a Ray that dies when the keeper has had its say."""
    node.begin()
    cluster.after = lambda: kill_vital(instance, "raylet")
    return node


def test_a_new_ray_gets_the_wanted_config_as_soon_as_it_takes_it(mortal, releases, cluster):
    releases.add(releases.stage(config(num_replicas=2)))
    cluster.errors = [httpx.ConnectError("not yet")]
    mortal.wait()
    assert cluster.deployed == [
        {"applications": [FIRST]},
        config(num_replicas=1),
        config(num_replicas=2),
    ]


def test_what_does_not_come_to_run_holds_up_the_rest_for_a_while_only(
    mortal, releases, cluster, pauses, monkeypatch
):
    whole = config(num_replicas=2)
    loans = {"import_path": "serve_app.customers:build", "deployments": [{"num_replicas": 2}]}
    whole["applications"].append({"name": "loans", **loans})
    releases.add(releases.stage(whole))
    monkeypatch.setattr(node_module, "is_deploying", lambda url: True)
    mortal.wait()
    assert len(cluster.deployed) == 3
    assert cluster.deployed[-1] == whole
    assert pauses.count(DEPLOY_PAUSE_S) == round(STAGE_S / DEPLOY_PAUSE_S)


def test_what_is_missing_of_it_where_a_keeper_died_half_way_is_deployed(mortal, releases, cluster):
    releases.add(releases.stage(config()))
    cluster.applications = {"inference": ("RUNNING", "")}
    cluster.half_way = True
    mortal.wait()
    assert cluster.deployed[-1] == config()


@pytest.mark.parametrize(
    "applications",
    [
        {"inference": ("RUNNING", ""), "flow": ("UNHEALTHY", "")},
        {"somebody's own": ("RUNNING", "")},
    ],
)
def test_a_ray_that_has_others_or_all_is_left_alone(mortal, releases, cluster, applications):
    releases.add(releases.stage(config()))
    cluster.applications = applications
    mortal.wait()
    assert cluster.deployed == []


def test_a_config_that_is_refused_is_tried_again_in_no_hurry(mortal, releases, cluster, pauses):
    releases.add(releases.stage(config()))
    cluster.refusals = [DeployError("The cluster refused the config: no such module")] * 2
    mortal.wait()
    assert len(cluster.deployed) == 2 + 2
    assert pauses.count(REFUSED_PAUSE_S) == 2
