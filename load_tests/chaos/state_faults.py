"""Faults that concern hidden states, and for how long each of them may keep a run waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import psutil

from deployments.stateful.options import StateOptions
from load_tests.chaos.injectors import kill, kill_and_wait, pause, stop_store
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import System, application
from load_tests.harness.waiting import wait_until
from serve_app.errors import DeployError

PAUSE_S = 5.0
DEPLOY_S = 120.0
BACK_S = 60.0

MODES: tuple[str, ...] = get_args(StateOptions.model_fields["durability"].annotation)


@dataclass
class ApplicationUnderTest:
    """One inference application on a running system.

    Attributes:
        redis: the system's store, where faults may concern it.
    """

    system: System
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    redis: RedisServer | None = None

    @property
    def url(self) -> str:
        return f"{self.system.url}/{self.name}"

    def deploy(self, replicas: int, **changed: Any) -> None:
        """Deploy as an operator does, and return when the replicas are as requested.

        Raises:
            TimeoutError: they are not in time.
        """
        args = {**self.args, **changed}
        app = application(self.name, f"/{self.name}", replicas=replicas, **args)
        before = self.system.applications.get(self.name)
        old = set(self.replicas()) if before and before["args"] != app["args"] else set()
        wait_until(lambda: self._try_to_deploy(app), DEPLOY_S, f"{self.name} is deployed")

        def are_new() -> bool:
            found = self.replicas()
            return len(found) == replicas and not old & set(found)

        wait_until(are_new, BACK_S, f"{replicas} new replicas of {self.name}")

    def _try_to_deploy(self, app: dict[str, Any]) -> bool:
        """Deploy; return False while a deployment counts as unhealthy after a kill."""
        try:
            self.system.deploy(app)
        except DeployError:
            return False
        return True

    def replicas(self) -> list[psutil.Process]:
        return self.system.replicas(self.name)

    def state_actors(self) -> list[psutil.Process]:
        return self.system.state_actors(self.name)

    def processes(self) -> list[psutil.Process]:
        return [*self.replicas(), *self.state_actors()]

    def controllers(self) -> list[psutil.Process]:
        return self.system.processes("ray::ServeController")


@dataclass(frozen=True)
class StateFault:
    """One fault.

    Attributes:
        inject: returns when the system is as before.
        max_away_s: longest time without an answer for a run.
        replicas: of the application beforehand.
    """

    name: str
    about: str
    inject: Callable[[ApplicationUnderTest], object]
    max_away_s: float = 1.0
    replicas: int = 2


def _pause(app: ApplicationUnderTest, processes: Sequence[psutil.Process]) -> None:
    n_before = len(app.processes())
    pause(processes, PAUSE_S)
    wait_until(lambda: len(app.processes()) == n_before, BACK_S, "as many processes as before")


def _kill_one_by_one(app: ApplicationUnderTest) -> None:
    replicas = app.replicas()
    kill(replicas[:1])
    time.sleep(2)
    kill_and_wait(app.state_actors)
    time.sleep(2)
    kill(replicas[1:])
    wait_until(lambda: len(app.replicas()) == len(replicas), BACK_S, "as many replicas as before")


def _deploy_in_turn(
    *changes: Mapping[str, Any],
) -> Callable[[ApplicationUnderTest], None]:
    def inject(app: ApplicationUnderTest) -> None:
        for change in changes:
            app.deploy(**{"replicas": 2, **change})

    return inject


def _restart_ray(app: ApplicationUnderTest) -> None:
    kill(app.system.instance.processes())
    app.system.instance.stop()
    app.system.instance.start()
    app.system.deploy()


REPLICA_S, START_S, RAY_S = 2.0, 10.0, 60.0

_ALL: Sequence[StateFault] = (
    StateFault("none", "nothing happens", lambda app: None),
    StateFault(
        "replica",
        "kill -9 of one of two replicas",
        lambda app: kill_and_wait(app.replicas, 1),
        REPLICA_S,
    ),
    StateFault(
        "only-replica",
        "kill -9 of the only replica",
        lambda app: kill_and_wait(app.replicas, 1),
        START_S,
        replicas=1,
    ),
    StateFault("actor", "kill -9 of the state actors", lambda app: kill_and_wait(app.state_actors)),
    StateFault(
        "application",
        "kill -9 of both replicas and of the state actors at once",
        lambda app: kill_and_wait(app.processes),
        START_S,
    ),
    StateFault(
        "one-by-one",
        "kill -9 of a replica, of the state actors, of the other replica, seconds apart",
        _kill_one_by_one,
        START_S,
    ),
    StateFault(
        "replica-pause",
        f"SIGSTOP of one of two replicas for {PAUSE_S:.0f} s",
        lambda app: _pause(app, app.replicas()[:1]),
        3.0,
    ),
    StateFault(
        "actor-pause",
        f"SIGSTOP of the state actors for {PAUSE_S:.0f} s",
        lambda app: _pause(app, app.state_actors()),
        1.5,
    ),
    StateFault(
        "controller",
        "kill -9 of Serve's controller",
        lambda app: kill_and_wait(app.controllers),
    ),
    StateFault(
        "store",
        "kill -9 of the store, which is back after 1 s",
        lambda app: stop_store(app.redis, 1.0),
    ),
    StateFault(
        "scale",
        "from 1 replica to 3 and back",
        _deploy_in_turn({"replicas": 3}, {"replicas": 1}),
        REPLICA_S,
        replicas=1,
    ),
    StateFault(
        "rollout",
        "another code version on 2 replicas, and back",
        _deploy_in_turn({"run_ttl_s": 3599}, {"run_ttl_s": 3600}),
        REPLICA_S,
    ),
    StateFault("ray", "kill -9 of all of Ray, which is started again", _restart_ray, RAY_S),
)
FAULTS = {fault.name: fault for fault in _ALL}
