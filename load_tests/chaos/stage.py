"""The system that faults happen to: an inference application on it, its processes, its store."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import psutil

from deployments.stateful.options import Durability
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import System, application
from serve_app.errors import DeployError

DEPLOY_S = 120.0
STATE_ACTOR = "ray::StateActor"
CONTROLLER = "ray::ServeController"

MODES: dict[str, dict[str, Any]] = {each: {"durability": each} for each in get_args(Durability)}
"""Arguments of the application by its durability."""


@dataclass
class Stage:
    """One application and where it runs.

    Attributes:
        redis: the system's store, where faults may concern it.
        moments: at which something was killed, stopped or continued.
    """

    system: System
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    redis: RedisServer | None = None
    moments: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.system.url}/{self.name}"

    async def deploy(self, replicas: int, **changed: Any) -> None:
        """Deploy the application as an operator does; return when its replicas are as asked."""
        args = {**self.args, **changed}
        app = application(self.name, f"/{self.name}", replicas=replicas, **args)
        before = self.system.applications.get(self.name)
        old = set(self.replicas()) if before and before["args"] != app["args"] else set()
        async with asyncio.timeout(DEPLOY_S):
            while not await asyncio.to_thread(self._try_to_deploy, app):
                await asyncio.sleep(1)
        await until(lambda: len(self.replicas()) == replicas and not old & set(self.replicas()))

    def _try_to_deploy(self, app: dict[str, Any]) -> bool:
        """Deploy; return False while a deployment counts as unhealthy that something was killed of
        before."""
        try:
            self.system.deploy(app)
        except DeployError:
            return False
        return True

    def replicas(self) -> list[psutil.Process]:
        return self.system.replicas(self.name)

    def state_actors(self) -> list[psutil.Process]:
        """Return the state actors of every application, of which this one alone is busy."""
        return self.system.processes(STATE_ACTOR)

    def controllers(self) -> list[psutil.Process]:
        return self.system.processes(CONTROLLER)

    def note(self) -> None:
        """Note the moment of a fault."""
        self.moments.append(time.monotonic())

    def signal(self, number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
        """Send a signal to processes that are found before, so that it is one moment for all."""
        if not processes:
            raise LookupError("there is no process for the fault to happen to")
        self.note()
        for process in processes:
            process.send_signal(number)


async def until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    """Look for processes aside, because it takes a tenth of a second, and clients go on."""
    async with asyncio.timeout(timeout_s):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.1)
