"""Faults of a whole system: processes that are killed or stopped, and changes of operators."""

from __future__ import annotations

import contextlib
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import psutil

from deployments.http.messages import RUN_HEADER
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import Config, config_but, shipped_config
from load_tests.harness.system_under_test import FaultInjectionError, SystemUnderTest
from models.networks.shipped import JUNCTIONS
from serve_app.processes.process_tags import Role

ONE, ALL = Path("deployments/inference/service.py"), Path("deployments/http/errors.py")
WEIGHTS = Path("models/weights")
KILL_S, FRONT_S, RAY_S = 2.0, 1.0, 30.0
START_S = 6.0  # of a replica without another one in its place
STORE_DOWN_S, PAUSE_S, APART_S = 5.0, 5.0, 2.5
STATES = "ray::StateActor"
RECORDS = ("loans", "cards")

Inject = Callable[[SystemUnderTest], None]


@dataclass(frozen=True)
class Fault:
    """One fault, and what clients may notice of it.

    Attributes:
        inject: raises ``FaultInjectionError`` if it fails or does not have its effect.
        config: that the system serves beforehand.
        max_away_s: the longest time without an answer of a service.
        exceptions: the same for single services.
        may_break: whether connections of clients may break.
        flawless: whether every request must be answered by its service itself.
    """

    name: str
    about: str
    inject: Inject
    config: Callable[[], Config] = shipped_config
    max_away_s: float = KILL_S
    exceptions: dict[str, float] = field(default_factory=dict)
    may_break: bool = False
    flawless: bool = False

    def allowed_s(self, service: str) -> float:
        return self.exceptions.get(service, self.max_away_s)


def kill(processes: Sequence[psutil.Process]) -> None:
    """Kill processes with ``kill -9``."""
    _signal(signal.SIGKILL, processes)


def pause(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Stop processes with SIGSTOP, and continue them."""
    _signal(signal.SIGSTOP, processes)
    try:
        time.sleep(seconds)
    finally:
        _signal(signal.SIGCONT, processes)


def stop_store(redis: RedisServer, seconds: float) -> None:
    """Kill the store, and start it again."""
    redis.kill()
    time.sleep(seconds)
    redis.start()


def _signal(number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
    """Send a signal to processes that were found before, so that it is one moment for all.

    Raises:
        FaultInjectionError: there is no process.
    """
    if not processes:
        raise FaultInjectionError("There is no process for this fault.")
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _kill(title: str) -> Inject:
    return lambda sut: kill(sut.processes(title)[:1])


def _kill_replica(application: str) -> Inject:
    return lambda sut: kill(sut.replicas(application)[:1])


def _kill_all_of_ray(sut: SystemUnderTest) -> None:
    kill(sut.instance.processes(Role.RAY))


def _new_version_of(file: Path) -> Inject:
    def inject(sut: SystemUnderTest) -> None:
        sut.append(file, "# another version")
        _replace(sut, partial(sut.deploy, sut.served[-1]))

    return inject


def _there_and_back(sut: SystemUnderTest) -> None:
    other = config_but(sut.served[-1], "inference", args={"run_ttl_s": 3599})
    _replace(sut, partial(sut.deploy, other))
    _replace(sut, sut.roll_back)


def _replace(sut: SystemUnderTest, change: Callable[[], None]) -> None:
    """Make a change that must replace the replicas of the inference service."""
    before = sut.replicas("inference")
    change()
    if not sut.wait_until_whole() or any(each.is_running() for each in before):
        raise FaultInjectionError("The old version still runs.")


def _new_weights(sut: SystemUnderTest) -> None:
    import torch  # takes two seconds, which --help does not need

    shipped = torch.load(sut.code / WEIGHTS / "agent.th", weights_only=True)
    path = sut.code / "other.th"
    torch.save({name: 1.5 * values for name, values in shipped.items()}, path)
    before, replicas = _confidence(sut), sut.replicas("inference")
    sut.deploy(_with_weights(path))
    if _confidence(sut) == before:
        raise FaultInjectionError("The old weights are still in service.")
    if sut.replicas("inference") != replicas:
        raise FaultInjectionError("The replicas were replaced, not only their weights.")


def _with_weights(path: Path) -> Config:
    user_config = {"agent_path": str(path), "revision": None}
    return config_but(shipped_config(), "inference", deployment={"user_config": user_config})


def _confidence(sut: SystemUnderTest) -> float:
    """Return the confidence of the policy in service at the first step of a run."""
    answer = httpx.post(
        f"{sut.instance.base_url}/predict_action",
        json={"junction_id": next(iter(JUNCTIONS)), "obs_data": [0.5]},
        headers={RUN_HEADER: uuid.uuid4().hex[:12], **sut.inference_access()},
        timeout=10.0,
    )
    confidence: float = answer.raise_for_status().json()["confidence"]
    return confidence


def _broken_code(line: str) -> Inject:
    def inject(sut: SystemUnderTest) -> None:
        good = (sut.code / ONE).read_bytes()
        sut.append(ONE, line)
        try:
            _expect_refusal(sut, shipped_config())
        finally:
            (sut.code / ONE).write_bytes(good)

    return inject


def _misfit(sut: SystemUnderTest) -> None:
    _expect_refusal(sut, _with_weights(sut.code / WEIGHTS / "flow.safetensors"))


def _expect_refusal(sut: SystemUnderTest, config: Config) -> None:
    """Deploy a config that must be refused, while the version in service stays."""
    before = sut.replicas("inference")
    try:
        sut.deploy(config)
    except FaultInjectionError as refusal:
        if "Traceback" in str(refusal):
            raise
    else:
        raise FaultInjectionError("The broken version was not refused.")
    if not all(each.is_running() for each in before):
        raise FaultInjectionError("The old version has ended.")


def _kill_one_by_one(sut: SystemUnderTest) -> None:
    replicas = sut.replicas("inference")
    for processes in (replicas[:1], sut.processes(STATES), replicas[1:]):
        kill(processes)
        time.sleep(APART_S)


def _scale(sut: SystemUnderTest) -> None:
    before = sut.served[-1]
    sut.deploy(config_but(before, "inference", deployment={"num_replicas": 3}))
    sut.deploy(before)


def _one_inference_replica() -> Config:
    return config_but(shipped_config(), "inference", deployment={"num_replicas": 1})


KILLS = (
    Fault("nothing", "nothing happens", lambda sut: None),
    Fault("inference", "one of two inference replicas", _kill_replica("inference")),
    Fault(
        "only-inference",
        "the only inference replica",
        _kill_replica("inference"),
        _one_inference_replica,
        START_S,
    ),
    Fault("states", "the state actor", _kill(STATES)),
    Fault(
        "all-inference",
        "both inference replicas and the state actor at once",
        lambda sut: kill([*sut.replicas("inference"), *sut.processes(STATES)]),
        max_away_s=START_S,
    ),
    Fault("gateway", "one of two gateway replicas", _kill_replica("gateway")),
    Fault("records", "one of two replicas of the loans", _kill_replica("loans")),
    Fault("density", "one of two replicas of a forecast", _kill_replica("density")),
    Fault("front", "Serve's HAProxy", _kill("haproxy.cfg"), max_away_s=FRONT_S),
    Fault(
        "front-manager",
        "the actor that keeps it",
        _kill("ray::HAProxyManager"),
        max_away_s=FRONT_S,
    ),
    Fault("proxy", "Ray's Python proxy", _kill("ray::ProxyActor")),
    Fault("controller", "Serve's controller", _kill("ray::ServeController")),
    Fault("edge", "the edge", _kill("edge.cfg"), max_away_s=FRONT_S, may_break=True),
    Fault("supervisor", "the supervisor of Ray and the edge", _kill("supervision.run")),
    Fault("raylet", "Ray's raylet", _kill("/raylet/raylet"), max_away_s=RAY_S),
    Fault("gcs", "Ray's GCS", _kill("/gcs/gcs_server"), max_away_s=RAY_S),
    Fault("ray", "all of Ray", _kill_all_of_ray, max_away_s=RAY_S),
    Fault(
        "store",
        f"Redis, for {STORE_DOWN_S:.0f} s",
        lambda sut: stop_store(sut.redis, STORE_DOWN_S),
        exceptions=dict.fromkeys(RECORDS, STORE_DOWN_S + KILL_S),
    ),
)
CHANGES = tuple(
    Fault(name, about, inject, flawless=True)
    for name, about, inject in (
        ("code", "new code of the inference", _new_version_of(ONE)),
        ("all-code", "new code of everything", _new_version_of(ALL)),
        ("rollback", "a new config of the inference, and the rollback", _there_and_back),
        ("weights", "new weights", _new_weights),
        ("no-import", "new code that does not import", _broken_code("import nowhere")),
        ("no-start", "new code that does not start", _broken_code("InferenceService = None")),
        ("misfit", "new weights that do not fit", _misfit),
    )
)
OF_STATES = (
    Fault(
        "one-by-one",
        "an inference replica, the state actor, the other replica, seconds apart",
        _kill_one_by_one,
        max_away_s=START_S,
    ),
    Fault(
        "inference-pause",
        f"SIGSTOP of one of two inference replicas for {PAUSE_S:.0f} s",
        lambda sut: pause(sut.replicas("inference")[:1], PAUSE_S),
        max_away_s=3.0,
    ),
    Fault(
        "states-pause",
        f"SIGSTOP of the state actor for {PAUSE_S:.0f} s",
        lambda sut: pause(sut.processes(STATES), PAUSE_S),
    ),
    Fault("scale", "from 1 inference replica to 3 and back", _scale, _one_inference_replica),
)
FAULTS = {each.name: each for each in (*KILLS, *CHANGES, *OF_STATES)}
