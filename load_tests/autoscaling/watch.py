"""What is to be seen of an application, second by second."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from load_tests.autoscaling.controllers import Controllers, Tally
from load_tests.harness.system import System

PERIOD_S = 1.0


@dataclass(frozen=True)
class Look:
    """One second.

    Attributes:
        at_s: since the start.
        replicas: that run.
        moves: hidden states that have moved so far; Ray tells it every ten seconds.
    """

    at_s: float
    controllers: int
    replicas: int
    requests_per_s: float
    p50_ms: float
    p95_ms: float
    moves: int


class Watch:
    """Looks once a second until it is cancelled."""

    def __init__(
        self, system: System, application: str, controllers: Controllers, tally: Tally
    ) -> None:
        self.looks: list[Look] = []
        self._system = system
        self._application = application
        self._controllers = controllers
        self._tally = tally

    async def run(self, report: Callable[[Look], None]) -> None:
        began = time.monotonic()
        while True:
            started = time.monotonic()
            await asyncio.sleep(PERIOD_S)
            replicas, moves = await asyncio.gather(
                asyncio.to_thread(self._replicas), asyncio.to_thread(self._system.moved_states)
            )
            latencies = self._tally.take_latencies()
            cuts = statistics.quantiles(latencies, n=20) if len(latencies) > 1 else [0.0] * 19
            now = time.monotonic()
            look = Look(
                at_s=now - began,
                controllers=self._controllers.number,
                replicas=replicas,
                requests_per_s=len(latencies) / (now - started),
                p50_ms=cuts[9] * 1000,
                p95_ms=cuts[18] * 1000,
                moves=moves[self._application],
            )
            self.looks.append(look)
            report(look)

    def _replicas(self) -> int:
        applications = self._system.instance.dashboard.applications()
        deployments = applications[self._application]["deployments"].values()
        return sum(
            replica["state"] == "RUNNING" for each in deployments for replica in each["replicas"]
        )
