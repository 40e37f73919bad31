"""Ray under supervision: started or adopted, with the wanted config deployed on it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from serve_app.errors import DeployError, InstanceError
from serve_app.processes.supervision import managed_ray
from serve_app.processes.supervision.managed_process import CannotStartError
from serve_app.processes.supervision.managed_ray import (
    BUILD_S,
    DEPLOY_POLL_S,
    FIRST_STAGE_S,
    HANGS_S,
    KEPT_SESSIONS,
    REFUSED_PAUSE_S,
    STAGE_S,
    VITAL,
    ManagedRay,
    remove_old_sessions,
)
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.releases import Releases

# A "head" with two children that have the names of Ray's vital processes.
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

    dashboard = RayDashboard("http://nowhere")

    def __init__(self, ray_dir: Path) -> None:
        self.ray_dir = ray_dir
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
        self.calls.append("adopt")

    def stop_ray(self, timeout_s: float = 15.0) -> None:
        self.calls.append(f"stop within {timeout_s:.0f} s")


@pytest.fixture
def instance(tmp_path):
    fake = FakeInstance(tmp_path)
    yield fake
    if fake.process:
        for child in psutil.Process(fake.process.pid).children():
            child.kill()
        fake.process.kill()
        fake.process.communicate()


@pytest.fixture
def releases(tmp_path):
    return Releases(tmp_path / "releases")


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def ray(instance, releases, pauses):
    return ManagedRay(lambda: instance, releases, pauses.append)


class FakeCluster:
    """Takes every config; Ray dies after the last call that a test needs."""

    def __init__(self) -> None:
        self.applications: dict[str, Any] = {}
        self.deployed: list[dict[str, Any]] = []
        self.whole: Callable[[], dict[str, Any] | None] = lambda: None
        self.partly_deployed = False
        self.errors: list[Exception] = []
        self.refusals: list[DeployError] = []
        self.after: Callable[[], None] = lambda: None

    def find_applications(self, dashboard: RayDashboard) -> dict[str, Any]:
        if self.errors:
            raise self.errors.pop(0)
        if self.applications and not self.partly_deployed:
            self.after()
        return self.applications

    def deploy(self, dashboard: RayDashboard, config: dict[str, Any]) -> None:
        self.deployed.append(config)
        if self.refusals:
            raise self.refusals.pop()
        if config == self.whole():
            self.after()


@pytest.fixture
def cluster(monkeypatch, releases):
    fake = FakeCluster()
    fake.whole = releases.wanted
    monkeypatch.setattr(RayDashboard, "applications", fake.find_applications)
    monkeypatch.setattr(managed_ray, "deploy", fake.deploy)
    monkeypatch.setattr(managed_ray, "is_building", lambda dashboard: False)
    monkeypatch.setattr(managed_ray, "is_deploying", lambda dashboard: False)
    return fake


def kill_vital(instance: FakeInstance, name: str) -> None:
    head = instance.head()
    assert head
    (victim,) = [child for child in head.children() if child.name() == name]
    victim.kill()
    while managed_ray._status(victim) not in managed_ray.ENDED:
        time.sleep(0.01)


def test_leftovers_are_killed_before_ray_starts(ray, instance):
    ray.start_or_adopt()
    assert instance.calls == ["stop within 0 s", "start"]


def test_a_running_ray_is_adopted(ray, instance):
    began = ray.start_or_adopt()
    instance.calls.clear()
    assert ray.start_or_adopt() == pytest.approx(began)
    assert instance.calls == ["adopt"]


def test_a_refused_start_is_reported(ray, instance):
    instance.refusal = "Port 8000 (for http) is taken by nginx (process 7)."
    with pytest.raises(CannotStartError, match="taken by nginx"):
        ray.start_or_adopt()


@pytest.mark.parametrize("name", VITAL)
def test_the_death_of_a_vital_process_ends_ray(name, ray, instance, cluster):
    ray.start_or_adopt()
    kill_vital(instance, name)
    assert ray.wait() == f"Ray has ended: {name} died."
    assert instance.calls[-1] == "stop within 0 s"


def test_vital_processes_that_died_in_the_same_moment_are_all_named(ray, instance, cluster):
    ray.start_or_adopt()
    for name in VITAL:
        kill_vital(instance, name)
    assert ray.wait() == f"Ray has ended: {' and '.join(VITAL)} died."


@pytest.mark.parametrize("name", VITAL)
def test_a_vital_process_that_stays_stopped_ends_ray(name, instance, releases, cluster):
    seconds = count()
    ray = ManagedRay(lambda: instance, releases, lambda _: None, lambda: next(seconds))
    ray.start_or_adopt()
    head = instance.head()
    assert head
    (hanging,) = [child for child in head.children() if child.name() == name]
    hanging.suspend()
    assert ray.wait() == f"Ray hangs: {name} was stopped for 10 s."
    assert next(seconds) > HANGS_S
    assert instance.calls[-1] == "stop within 0 s"


def test_a_ray_that_has_lost_its_socket_ends(ray, instance, cluster, tmp_path):
    ray.start_or_adopt()
    socket = tmp_path / f"session_2026-01-01_{instance.process.pid}" / "sockets" / "raylet"
    socket.parent.mkdir(parents=True)
    socket.touch()
    ray.start_or_adopt()
    socket.unlink()
    assert ray.wait() == f"Ray can start no process: {socket} is gone."
    assert instance.calls[-1] == "stop within 0 s"


FIRST = {"name": "inference", "import_path": "serve_app.inference:build"}


def config(**deployment: object) -> dict[str, Any]:
    flow = {"name": "flow", "import_path": "serve_app.flow:build"}
    return {"applications": [FIRST, {**flow, "deployments": [{"name": "Flow", **deployment}]}]}


@pytest.fixture
def mortal(ray, instance, cluster):
    """Start a Ray that dies once the config is deployed."""
    ray.start_or_adopt()
    cluster.after = lambda: kill_vital(instance, "raylet")
    return ray


def test_a_new_ray_gets_the_wanted_config_in_stages(mortal, releases, cluster):
    releases.add(releases.stage(config(num_replicas=2)))
    cluster.errors = [httpx.ConnectError("not yet")]
    mortal.wait()
    assert cluster.deployed == [
        {"applications": [FIRST]},
        config(num_replicas=1),
        config(num_replicas=2),
    ]


def test_a_stage_that_does_not_run_delays_the_rest_for_a_while(
    mortal, releases, cluster, pauses, monkeypatch
):
    whole = config(num_replicas=2)
    loans = {"import_path": "serve_app.customers:build", "deployments": [{"num_replicas": 2}]}
    whole["applications"].append({"name": "loans", **loans})
    releases.add(releases.stage(whole))
    monkeypatch.setattr(managed_ray, "is_deploying", lambda dashboard: True)
    mortal.wait()
    assert len(cluster.deployed) == 3
    assert cluster.deployed[-1] == whole
    assert pauses.count(DEPLOY_POLL_S) == round((FIRST_STAGE_S + STAGE_S) / DEPLOY_POLL_S)


def test_the_next_stage_waits_until_serve_has_built_the_one_before(
    mortal, releases, cluster, monkeypatch
):
    releases.add(releases.stage(config(num_replicas=2)))
    polls: list[int] = []  # how many stages had been sent

    def is_building(dashboard: RayDashboard) -> bool:
        polls.append(len(cluster.deployed))
        return polls.count(len(cluster.deployed)) < BUILD_S / DEPLOY_POLL_S / 2

    monkeypatch.setattr(managed_ray, "is_building", is_building)
    mortal.wait()
    assert Counter(polls) == dict.fromkeys((1, 2), round(BUILD_S / DEPLOY_POLL_S / 2))
    assert len(cluster.deployed) == 3


def test_a_partly_deployed_config_is_completed(mortal, releases, cluster):
    releases.add(releases.stage(config()))
    cluster.applications = {"inference": {"status": "RUNNING"}}
    cluster.partly_deployed = True
    mortal.wait()
    assert cluster.deployed[-1] == config()


@pytest.mark.parametrize(
    "applications",
    [
        {"inference": {"status": "RUNNING"}, "flow": {"status": "UNHEALTHY"}},
        {"another-system": {"status": "RUNNING"}},
    ],
)
def test_a_ray_with_all_or_other_applications_is_left_alone(
    mortal, releases, cluster, applications
):
    releases.add(releases.stage(config()))
    cluster.applications = applications
    mortal.wait()
    assert cluster.deployed == []


def test_a_refused_config_is_sent_again_after_a_pause(mortal, releases, cluster, pauses):
    releases.add(releases.stage(config()))
    cluster.refusals = [DeployError("The cluster refused the config: no such module")] * 2
    mortal.wait()
    assert len(cluster.deployed) == 2 + 2
    assert sum(pauses) >= 2 * REFUSED_PAUSE_S


class GivingUpCluster(FakeCluster):
    """Starts what is new, as Serve does: what has failed stays so until it is removed."""

    def __init__(self, **failures: int) -> None:
        super().__init__()
        self._failures = Counter(failures)

    def find_applications(self, dashboard: RayDashboard) -> dict[str, Any]:
        found = self.applications
        self.applications = {n: e for n, e in found.items() if e["status"] != "DELETING"}
        return found

    def deploy(self, dashboard: RayDashboard, config: dict[str, Any]) -> None:
        self.deployed.append(config)
        names = [each["name"] for each in config["applications"]]
        self.applications = {
            **{
                name: self.applications[name] | {"status": "DELETING"}
                for name in self.applications.keys() - set(names)
            },
            **{name: self._redeploy(name) for name in names},
        }

    def _redeploy(self, name: str) -> dict[str, Any]:
        known = self.applications.get(name) or self._start(name)
        return known | {"status": known["status"].replace("DELETING", "DEPLOY_FAILED")}

    def is_deploying(self, dashboard: RayDashboard) -> bool:
        if [each["status"] for each in self.applications.values()] == ["RUNNING", "RUNNING"]:
            self.after()
        return False

    def _start(self, name: str) -> dict[str, Any]:
        self._failures[name] -= 1
        status = "DEPLOY_FAILED" if self._failures[name] >= 0 else "RUNNING"
        return {"deployments": {}, "status": status, "message": "Traceback:\nOSError: too busy\n"}


def giving_up(monkeypatch, releases, failures: int) -> GivingUpCluster:
    """Put a cluster in Serve's place in which flow fails to start so often; the release has it."""
    cluster = GivingUpCluster(flow=failures)
    monkeypatch.setattr(RayDashboard, "applications", cluster.find_applications)
    monkeypatch.setattr(managed_ray, "deploy", cluster.deploy)
    monkeypatch.setattr(managed_ray, "is_building", lambda dashboard: False)
    monkeypatch.setattr(managed_ray, "is_deploying", cluster.is_deploying)
    releases.add(releases.stage(config()))
    return cluster


def test_what_serve_has_given_up_is_removed_and_deployed_until_it_runs(
    ray, instance, releases, pauses, monkeypatch, caplog
):
    cluster = giving_up(monkeypatch, releases, failures=3)
    ray.start_or_adopt()
    cluster.after = lambda: kill_vital(instance, "raylet")
    ray.wait()
    without_flow = {"applications": [FIRST]}
    assert cluster.deployed == (1 + 3) * [without_flow, config()]
    assert "{'flow': 'OSError: too busy'}" in caplog.text
    assert sum(pauses) >= (1 + 2 + 4 + 8) * REFUSED_PAUSE_S


def test_what_another_deploy_may_restore_is_left_alone(
    ray, instance, releases, monkeypatch, caplog
):
    cluster = giving_up(monkeypatch, releases, failures=9)
    ray.start_or_adopt()
    refused = count()

    def end_after_three(record: logging.LogRecord) -> bool:
        if "Another deploy" in record.getMessage() and next(refused) == 2:
            kill_vital(instance, "raylet")
        return True

    caplog.handler.addFilter(end_after_three)
    with releases.rollout_lock():
        ray.wait()
    assert len(cluster.deployed) == 2, "the two stages"


def test_only_the_newest_sessions_stay(tmp_path):
    for day in range(1, 7):
        (tmp_path / f"session_2026-01-0{day}_7" / "logs").mkdir(parents=True)
    (tmp_path / "session_latest").symlink_to("session_2026-01-06_7")
    remove_old_sessions(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [*(f"session_2026-01-0{day}_7" for day in (4, 5, 6)), "session_latest"]
    assert len(left) == KEPT_SESSIONS + 1


def test_the_first_start_has_no_old_sessions(tmp_path):
    remove_old_sessions(tmp_path / "ray")
