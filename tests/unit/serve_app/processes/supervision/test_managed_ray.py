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

import psutil
import pytest

from serve_app.errors import InstanceError
from serve_app.processes.supervision import managed_ray
from serve_app.processes.supervision.managed_ray import (
    DEPLOY_POLL_S,
    FIRST_STAGE_S,
    HANGS_S,
    KEPT_SESSIONS,
    REFUSED_PAUSE_S,
    VITAL,
    ManagedRay,
    remove_old_sessions,
)
from serve_app.rollout.releases import Releases
from tests.support.fake_ray import Config, FakeRay, runs

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

    def __init__(self, ray_dir: Path, ray_api: FakeRay) -> None:
        self.ray_dir = ray_dir
        self.dashboard = ray_api.dashboard
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
def instance(tmp_path, ray_api):
    fake = FakeInstance(tmp_path, ray_api)
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


def kill_vital(instance: FakeInstance, name: str) -> None:
    head = instance.head()
    assert head
    (victim,) = [child for child in head.children() if child.name() == name]
    victim.kill()
    while managed_ray._status(victim) not in managed_ray.ENDED:
        time.sleep(0.01)


@pytest.mark.parametrize("names", [VITAL[:1], VITAL[1:], VITAL])
def test_the_death_of_a_vital_process_ends_ray_which_was_started_once(names, ray, instance):
    began = ray.start_or_adopt()
    assert ray.start_or_adopt() == pytest.approx(began)
    for name in names:
        kill_vital(instance, name)
    assert ray.wait() == f"Ray has ended: {' and '.join(names)} died."
    leftovers = "stop within 0 s"
    assert instance.calls == [leftovers, "start", "adopt", leftovers]


@pytest.mark.parametrize("name", VITAL)
def test_a_vital_process_that_stays_stopped_ends_ray(name, instance, releases):
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


def test_a_ray_that_has_lost_its_socket_ends(ray, instance, tmp_path):
    ray.start_or_adopt()
    socket = tmp_path / f"session_2026-01-01_{instance.process.pid}" / "sockets" / "raylet"
    socket.parent.mkdir(parents=True)
    socket.touch()
    ray.start_or_adopt()
    socket.unlink()
    assert ray.wait() == f"Ray can start no process: {socket} is gone."
    assert instance.calls[-1] == "stop within 0 s"


FIRST = {"name": "inference", "import_path": "serve_app.inference:build"}


def config(**deployment: object) -> Config:
    flow = {"name": "flow", "import_path": "serve_app.flow:build"}
    return {"applications": [FIRST, {**flow, "deployments": [{"name": "Flow", **deployment}]}]}


@pytest.fixture
def wanted(ray, instance, releases, ray_api) -> Callable[[Config], None]:
    """Start a Ray that dies as soon as it has all of the config that is wanted."""
    ray.start_or_adopt()

    def want(config: Config) -> None:
        releases.add(releases.stage(config))

        def report(application: Config) -> dict[str, Any]:
            if ray_api.sent[-1:] == [config]:
                kill_vital(instance, "raylet")
            return runs(application)

        ray_api.report = report

    return want


def deploying(application: Config) -> dict[str, Any]:
    return runs(application) | {"status": "DEPLOYING"}


def test_a_ray_that_does_not_answer_yet_is_asked_again(instance, releases, wanted, ray_api):
    wanted(config())
    ray_api.status = 503
    ray = ManagedRay(lambda: instance, releases, lambda _: setattr(ray_api, "status", 200))
    ray.start_or_adopt()
    ray.wait()
    assert ray_api.sent[-1] == config()


def test_a_stage_that_does_not_run_delays_the_rest_for_a_while(
    ray, instance, releases, ray_api, pauses
):
    whole = config(num_replicas=2)
    releases.add(releases.stage(whole))
    ray.start_or_adopt()
    ray_api.report = deploying

    def end_with_the_whole(config: Config) -> str:
        if config == whole:
            kill_vital(instance, "raylet")
        return ""

    ray_api.refuse = end_with_the_whole
    ray.wait()
    assert len(ray_api.sent) == 2
    assert pauses.count(DEPLOY_POLL_S) == round(FIRST_STAGE_S / DEPLOY_POLL_S)


def test_the_next_stage_waits_until_serve_has_built_the_one_before(ray, wanted, ray_api):
    whole = config(num_replicas=2)
    wanted(whole)
    ends, polls = ray_api.report, Counter[int]()  # by the number of stages that had been sent

    def build(application: Config) -> dict[str, Any]:
        stage = len(ray_api.sent)
        polls[stage] += 1
        built = polls[stage] > 10 or stage == 2
        return ends(application) if built else deploying(application) | {"deployments": {}}

    ray_api.report = build
    ray.wait()
    assert ray_api.sent == [{"applications": [FIRST]}, whole]
    assert polls[1] >= 10


@pytest.mark.parametrize(
    ("applications", "sent"),
    [
        (["inference"], True),
        (["inference", "flow"], False),
        (["another-system"], False),
    ],
    ids=["part", "all", "others"],
)
def test_only_a_config_that_is_partly_deployed_is_completed(
    instance, releases, ray_api, applications, sent
):
    releases.add(releases.stage(config()))
    ray_api.serve(*({"name": name} for name in applications))
    sleeps = count()

    def end(seconds: float) -> None:
        if next(sleeps) == 100:
            kill_vital(instance, "raylet")

    ray = ManagedRay(lambda: instance, releases, end)
    ray.start_or_adopt()
    ray.wait()
    assert ray_api.sent[-1:] == [config()] * sent


def test_a_refused_config_is_sent_again_after_a_pause(ray, wanted, ray_api, pauses):
    wanted(config())
    refusals = iter(["no such module"] * 2)
    ray_api.refuse = lambda config: next(refusals, "")
    ray.wait()
    assert len(ray_api.sent) == 2 + 2
    assert sum(pauses) >= 2 * REFUSED_PAUSE_S


def let_fail(ray_api: FakeRay, name: str, failures: int, after: Callable[[], None]) -> None:
    """Let an application fail so often; what has failed stays so until it is removed.

    Args:
        after: called when all of the config has run for a look.
    """
    left = iter(range(failures))
    failed: set[str] = set()
    before: set[str] = set()

    def start(config: Config) -> str:
        names = {each["name"] for each in config["applications"]}
        failed.intersection_update(names)
        if name in names - before and next(left, None) is not None:
            failed.add(name)
        before.clear()
        before.update(names)
        return ""

    def report(application: Config) -> dict[str, Any]:
        if application["name"] in failed:
            message = "Traceback:\nOSError: too busy"
            return runs(application) | {"status": "DEPLOY_FAILED", "message": message}
        if application["name"] == name:
            after()
        return runs(application)

    ray_api.refuse, ray_api.report = start, report


def test_an_application_that_failed_to_start_is_removed_and_deployed_again_with_pauses(
    ray, instance, releases, ray_api, pauses, caplog
):
    releases.add(releases.stage(config()))
    let_fail(ray_api, "flow", 3, lambda: kill_vital(instance, "raylet"))
    ray.start_or_adopt()
    ray.wait()
    without_flow = {"applications": [FIRST]}
    assert ray_api.sent == (1 + 3) * [without_flow, config()]
    assert "{'flow': 'OSError: too busy'}" in caplog.text
    assert sum(pauses) >= (1 + 2 + 4) * REFUSED_PAUSE_S


def test_what_another_deploy_may_restore_is_left_alone(ray, instance, releases, ray_api, caplog):
    releases.add(releases.stage(config()))
    let_fail(ray_api, "flow", 9, lambda: None)
    ray.start_or_adopt()
    refused = count()

    def end_after_three(record: logging.LogRecord) -> bool:
        if "Another deploy" in record.getMessage() and next(refused) == 2:
            kill_vital(instance, "raylet")
        return True

    caplog.handler.addFilter(end_after_three)
    with releases.rollout_lock():
        ray.wait()
    assert len(ray_api.sent) == 2, "the two stages"


def test_only_the_newest_sessions_stay(tmp_path):
    remove_old_sessions(tmp_path / "not there yet")
    for day in range(1, 7):
        (tmp_path / f"session_2026-01-0{day}_7" / "logs").mkdir(parents=True)
    (tmp_path / "session_latest").symlink_to("session_2026-01-06_7")
    remove_old_sessions(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [*(f"session_2026-01-0{day}_7" for day in (4, 5, 6)), "session_latest"]
    assert len(left) == KEPT_SESSIONS + 1
