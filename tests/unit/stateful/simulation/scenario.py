"""Scenarios: scripts over a simulated cluster, each judged at its end.

A scenario starts replicas, sends requests, injects faults and lets time pass::

    @scenario
    async def test_a_short_stall_costs_nothing() -> None:
        cluster = await start(2)
        owner, other = cluster.replicas
        await cluster.step(owner)
        cluster.faults.stall_replica(owner, for_s=0.05)
        assert (await cluster.step(other)).step == 2

The judge then checks every invariant, and that no step was lost to a fault, unless the scenario
has named the loss in ``cluster.lost``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, ParamSpec

from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.actors import Actor
from tests.unit.stateful.simulation.cluster import KEYS, SimulatedCluster
from tests.unit.stateful.simulation.excuses import Violation
from tests.unit.stateful.simulation.faults import Faults
from tests.unit.stateful.simulation.history import GRU, LSTM, Outcome, Request, StateForm
from tests.unit.stateful.simulation.judge import Judge
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.replica import Replica
from tests.unit.stateful.simulation.times import OPTIONS, a_tenth_as_long

P = ParamSpec("P")
AsyncTest = Callable[P, Coroutine[Any, Any, None]]

KEY = KEYS[0]
INTENDED = ("reset", "an unconfirmed reset", "expired")  # losses that are not the cost of a fault

_CLUSTERS: list[Scenario] = []
_FORM: ContextVar[StateForm] = ContextVar("form", default=GRU)


def simulated(test: AsyncTest[P]) -> Callable[P, None]:
    """Run an async test in a simulated event loop, as a part of its cluster."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with a_tenth_as_long(), contextlib.closing(SimulatedLoop()) as loop:  # type: ignore[abstract]
            loop.run(test(*args, **kwargs))
            for cluster in _CLUSTERS:
                cluster.judge()
            _CLUSTERS.clear()
            assert not loop.defects, loop.defects[0]

    return run


def scenario(test: AsyncTest[P]) -> Callable[P, None]:
    """Run a simulated test once for each of two forms of states."""
    once = simulated(test)

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        for form in (GRU, LSTM):
            token = _FORM.set(form)
            try:
                once(*args, **kwargs)
            except BaseException as error:
                error.add_note(f"with states of the form {form}")
                raise
            finally:
                _FORM.reset(token)
                _CLUSTERS.clear()

    return run


class Scenario(SimulatedCluster):
    """A cluster that a test drives.

    Attributes:
        lost: the losses that the judge must excuse, by the name of the excuse.
    """

    def __init__(self, seed: int, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop), "a scenario runs in a simulated test"
        super().__init__(loop, OPTIONS.model_copy(update=options), seed, form=_FORM.get())
        self.faults = Faults(self)
        self.lost: dict[str, int] = {}
        _CLUSTERS.append(self)

    async def add_replicas(self, n: int = 1) -> list[Replica]:
        """Start replicas, and wait until they serve."""
        added = [self.add_replica() for _ in range(n)]
        await until(lambda: all(replica.ready for replica in added))
        return added

    def actor(self, key: Key = KEY) -> Actor:
        """Return the state actor of a key in the present layout."""
        return next(each for each in reversed(self.present_actors) if each.partition.has(key))

    def kill_actor(self, down_s: float = 0.02, key: Key = KEY) -> None:
        """End the process of a state actor, which the next one knows."""
        self.faults.kill_actor(self.actor(key), down_s, noticed=True)

    async def step(
        self, replica: Replica, key: Key = KEY, request_id: str | None = None
    ) -> Request:
        """Send a request, and wait until it has ended."""
        request = self.send(replica, key, request_id)
        return await self.end_of(request)

    async def end_of(self, request: Request) -> Request:
        await until(lambda: request.outcome is not Outcome.PENDING)
        return request

    async def clear(self, replica: Replica, run: str = KEY.run) -> None:
        """Reset a run, and wait for the confirmation."""
        call = self.reset(replica, run)
        await until(lambda: call.done is not None)

    async def close(self, replica: Replica) -> None:
        replica.close()
        await until(lambda: replica.closed)

    def judge(self) -> None:
        """Check every invariant, and that exactly the named losses were excused.

        Raises:
            Violation: an invariant is violated, or other steps were lost.
        """
        self.history.defects += self.loop.defects
        judge = Judge(self)
        judge.judge()
        excused = {name: n for name, n in judge.excused.items() if name not in INTENDED}
        if excused != self.lost:
            raise Violation(f"lost {excused}, expected {self.lost}")


async def start(n_replicas: int = 1, seed: int = 0, **options: Any) -> Scenario:
    """Return a cluster with replicas that serve.

    Args:
        options: those that differ from the options of the simulation.
    """
    cluster = Scenario(seed, **options)
    await cluster.add_replicas(n_replicas)
    return cluster


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.0005)
