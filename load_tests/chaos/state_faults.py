"""Faults that concern hidden states, and which steps each of them may cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import psutil

from deployments.stateful.options import Durability
from load_tests.chaos.injectors import kill, kill_and_wait, note, pause, stop_store
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import System, application
from load_tests.harness.waiting import wait_until
from serve_app.errors import DeployError

PAUSE_S = 5.0
DEPLOY_S = 120.0
BACK_S = 60.0

MODES: dict[str, dict[str, Any]] = {each: {"durability": each} for each in get_args(Durability)}
"""The arguments of the application by its durability."""

UNCOMMITTED: Mapping[str, float] = {"memory": 0.01, "store_async": 0.01}
UNSAVED: Mapping[str, float] = {"memory": 1.1, "actor": 1.1, "store_async": 0.01}


@dataclass
class ApplicationUnderTest:
    """One inference application on a running system.

    Attributes:
        redis: the system's store, where faults may concern it.
        moments: of the faults.
    """

    system: System
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    redis: RedisServer | None = None
    moments: list[float] = field(default_factory=list)

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
        """Return the state actors of every application, of which only this one's are busy."""
        return self.system.state_actors()

    def controllers(self) -> list[psutil.Process]:
        return self.system.processes("ray::ServeController")


@dataclass(frozen=True)
class StateFault:
    """One fault.

    Attributes:
        inject: returns when the system is as before.
        replicas: of the application beforehand.
        may_cost: by mode, how long before the fault a lost step may have been answered, in seconds;
            in a mode that is not named, no step may be lost.
    """

    name: str
    about: str
    inject: Callable[[ApplicationUnderTest], object]
    replicas: int = 2
    may_cost: Mapping[str, float] = field(default_factory=dict)


def _kill_replica_and_actors(app: ApplicationUnderTest) -> None:
    replicas = app.replicas()
    kill(app, [replicas[0], *app.state_actors()])
    wait_until(lambda: len(app.replicas()) == len(replicas), BACK_S, "as many replicas as before")


def _kill_one_by_one(app: ApplicationUnderTest) -> None:
    replicas = app.replicas()
    kill(app, replicas[:1])
    time.sleep(2)
    kill_and_wait(app, app.state_actors)
    time.sleep(2)
    kill(app, replicas[1:])
    wait_until(lambda: len(app.replicas()) == len(replicas), BACK_S, "as many replicas as before")


def _deploy_in_turn(
    *changes: Mapping[str, Any],
) -> Callable[[ApplicationUnderTest], None]:
    def inject(app: ApplicationUnderTest) -> None:
        for change in changes:
            note(app)
            app.deploy(**{"replicas": 2, **change})

    return inject


def _restart_ray(app: ApplicationUnderTest) -> None:
    note(app)
    app.system.kill_everything()
    note(app)
    app.system.instance.stop()
    app.system.instance.start()
    app.system.deploy()


_ALL: Sequence[StateFault] = (
    StateFault("none", "nothing happens", lambda app: None),
    StateFault(
        "replica",
        "kill -9 of one of two replicas",
        lambda app: kill_and_wait(app, app.replicas, 1),
        may_cost=UNCOMMITTED,
    ),
    StateFault(
        "only-replica",
        "kill -9 of the only replica",
        lambda app: kill_and_wait(app, app.replicas, 1),
        1,
        UNCOMMITTED,
    ),
    StateFault(
        "actor", "kill -9 of the state actors", lambda app: kill_and_wait(app, app.state_actors)
    ),
    StateFault(
        "replica+actor",
        "kill -9 of one of two replicas and of the state actors at once",
        _kill_replica_and_actors,
        may_cost=UNSAVED,
    ),
    StateFault(
        "one-by-one",
        "kill -9 of a replica, of the state actors, of the other replica, seconds apart",
        _kill_one_by_one,
        may_cost=UNCOMMITTED,
    ),
    StateFault(
        "replica-pause",
        f"SIGSTOP of one of two replicas for {PAUSE_S:.0f} s",
        lambda app: pause(app, app.replicas()[:1], PAUSE_S),
        may_cost=UNCOMMITTED,
    ),
    StateFault(
        "actor-pause",
        f"SIGSTOP of the state actors for {PAUSE_S:.0f} s",
        lambda app: pause(app, app.state_actors(), PAUSE_S),
    ),
    StateFault(
        "controller",
        "kill -9 of Serve's controller",
        lambda app: kill_and_wait(app, app.controllers),
    ),
    StateFault(
        "store", "kill -9 of the store, which is back after 1 s", lambda app: stop_store(app, 1.0)
    ),
    StateFault(
        "scale",
        "from 1 replica to 3 and back",
        _deploy_in_turn({"replicas": 3}, {"replicas": 1}),
        1,
    ),
    StateFault(
        "rollout",
        "another code version on 2 replicas, and back",
        _deploy_in_turn({"run_ttl_s": 3599}, {"run_ttl_s": 3600}),
    ),
    StateFault(
        "reshard",
        "from 1 state actor to 2 and back, by a redeploy",
        _deploy_in_turn({"shards": 2}, {"shards": 1}),
    ),
    StateFault("ray", "kill -9 of all of Ray, which is started again", _restart_ray, 2, UNSAVED),
)
FAULTS = {fault.name: fault for fault in _ALL}
