"""Steps that share calls of the inference service.

A call over HTTP costs several times what a step costs. So steps share a call when they arrive in
one turn of the event loop, or while MAX_CALLS are under way: these wait for one to return, as small
packets do in Nagle's algorithm (RFC 896), but no longer than MAX_HOLD_S.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from deployments.gateway.errors import InferenceUnavailableError
from deployments.trace_context import Trace
from models.signals.diagnosis import Fault

MAX_CALLS = 2  # one is stepped while the other's answers are sent
MAX_HOLD_S = 0.005  # a call that hangs must not hold up the others
MAX_STEPS = 64  # more with a key for one junction are refused


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


class Batcher:
    """Gathers steps into calls, each for one run, and returns to each step its own outcome.

    Args:
        call: makes one call for steps of one run: a decision or an error per step, in their order.
            What it raises is the outcome of them all.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._arrived: list[_Waiting] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._hold: asyncio.Handle | None = None

    async def act(self, step: Step) -> Decided:
        """Return the step's decision, or raise its outcome."""
        loop = asyncio.get_running_loop()
        if not self._arrived:
            busy = len(self._calls) >= MAX_CALLS
            self._hold = (
                loop.call_later(MAX_HOLD_S, self._send) if busy else loop.call_soon(self._send)
            )
        answer: asyncio.Future[Decided] = loop.create_future()
        self._arrived.append((step, answer))
        return await answer

    def close(self) -> None:
        """Leave no caller waiting."""
        if self._hold is not None:
            self._hold.cancel()
        for _, answer in self._arrived:
            answer.cancel()
        self._arrived.clear()
        for call in self._calls:
            call.cancel()

    def _send(self) -> None:
        arrived, self._arrived = self._arrived, []
        batches: dict[str | None, list[_Waiting]] = {}
        for step, answer in arrived:
            if not answer.done():  # its client is still there
                batches.setdefault(step.run, []).append((step, answer))
        for of_run in batches.values():
            for begin in range(0, len(of_run), MAX_STEPS):
                batch = of_run[begin : begin + MAX_STEPS]
                # in no request's context: the call is not only that of the first of them
                call = asyncio.create_task(self._answer(batch), context=contextvars.Context())
                self._calls.add(call)
                call.add_done_callback(self._returned)

    def _returned(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._arrived and self._hold is not None:
            self._hold.cancel()
            self._send()

    async def _answer(self, batch: Sequence[_Waiting]) -> None:
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
        for (_, answer), outcome in zip(batch, outcomes, strict=True):
            if answer.done():  # the client has gone
                continue
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)
