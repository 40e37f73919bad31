"""Steps that share calls of the inference service.

A call over HTTP costs several times what a step costs. So steps share a call when they arrive in
one turn of the event loop, or while MAX_CALLS are under way: these wait for one to return, as small
packets do in Nagle's algorithm (RFC 896), but no longer than MAX_HOLD_S.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from deployments.batcher import Batcher, settle
from deployments.gateway.errors import InferenceUnavailableError
from deployments.trace_context import Trace
from models.signals.diagnosis import Fault

MAX_CALLS = 2  # one is stepped while the other's answers are sent
MAX_HOLD_S = 0.005  # a call that hangs must not hold up the others


class Step(NamedTuple):
    """One step of one junction.

    Attributes:
        run: simulation run, None for the default one.
        obs: no more finite values than the network has.
        key: idempotency key, with which a repeated call makes no second step.
        request_id: of the request that asks, for the inference service's log.
        trace: that the request belongs to.
    """

    run: str | None
    junction_id: str
    obs: list[float]
    key: str
    request_id: str | None = None
    trace: Trace | None = None


class Decided(NamedTuple):
    """What the inference service decided.

    Attributes:
        action: of the junction.
        failed_detectors: by lane, the fault of each detector whose reading was replaced.
    """

    action: int
    failed_detectors: Mapping[str, Fault] = MappingProxyType({})


Outcome = Decided | Exception
Call = Callable[[Sequence[Step]], Awaitable[Sequence[Outcome]]]
_Waiting = tuple[Step, asyncio.Future[Decided]]


class CallBatcher(Batcher[Step, Decided]):
    """Gathers steps into calls, each for one run, and returns to each step its own outcome.

    Args:
        call: makes one call for steps of one run: a decision or an error per step, in their order.
            What it raises is the outcome of them all.
    """

    def __init__(self, call: Call) -> None:
        super().__init__(self._begin)
        self._call = call
        self._calls: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Leave no caller waiting."""
        if self._timer is not None:
            self._timer.cancel()
        for _, answer in self._waiting:
            answer.cancel()
        self._waiting.clear()
        for call in self._calls:
            call.cancel()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> asyncio.Handle:
        if len(self._calls) < MAX_CALLS:
            return super()._schedule(loop)
        return loop.call_later(MAX_HOLD_S, self._run_waiting)

    def _divide(self, waiting: list[_Waiting]) -> Iterable[list[_Waiting]]:
        of_runs: dict[str | None, list[_Waiting]] = {}
        for step, answer in waiting:
            of_runs.setdefault(step.run, []).append((step, answer))
        return of_runs.values()

    def _begin(self, batch: list[_Waiting]) -> None:
        # in no request's context: the call is not only that of the first of them
        call = asyncio.create_task(self._answer(batch), context=contextvars.Context())
        self._calls.add(call)
        call.add_done_callback(self._returned)

    def _returned(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._waiting and self._timer is not None:
            self._timer.cancel()
            self._run_waiting()

    async def _answer(self, batch: list[_Waiting]) -> None:
        outcomes: Sequence[Outcome]
        try:
            outcomes = await self._call([step for step, _ in batch])
            if len(outcomes) != len(batch):
                raise InferenceUnavailableError("unusable", "not one outcome per step")
        except Exception as error:
            outcomes = [error] * len(batch)
        except asyncio.CancelledError:  # closed
            for _, answer in batch:
                answer.cancel()
            raise
        settle(batch, outcomes)
