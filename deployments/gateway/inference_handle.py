"""Calls of the inference application through a Serve handle.

A call of another replica costs several times what a step costs, so requests share calls: those
that arrive in one turn of the event loop, and those that arrive while enough calls are on their
way. These wait until one returns, as small packets do in Nagle's algorithm (RFC 896), but not for
long.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from deployments.gateway.inference_client import (
    InferenceUnavailableError,
    Step,
    checked_action,
    error_of,
)

logger = logging.getLogger("ray.serve")

MAX_CALLS = 2  # on their way: one is stepped while the other's answers are sent
MAX_HOLD_S = 0.005  # a call that hangs must not hold up the others


class Handle(Protocol):
    """The methods of the inference deployment, as awaitable calls; plain tuples in and out."""

    def act(self, steps: list[tuple[str | None, str, list[float]]]) -> Awaitable[list[Any]]:
        """Per step (action, confidence) or ("error", HTTP status, detail)."""

    def reset_run(self, run: str | None) -> Awaitable[Any]:
        """A message, or ("error", HTTP status, detail)."""

    def health_status(self) -> Awaitable[str]: ...


class HandleTransport:
    """Implements :class:`.inference_client.Transport`.

    Args:
        resolve: finds the handle, anew until it succeeds: the application may start later.
        deadline_s: for finding the handle, queue and answer together.
        context_of: from a request id to the context that a shared call is made in. It must not be
            that of a request: Serve cancels a request's calls when its client goes away.
    """

    def __init__(
        self,
        resolve: Callable[[], Awaitable[Handle]],
        deadline_s: float,
        context_of: Callable[[str | None], contextvars.Context] = lambda _: contextvars.Context(),
    ) -> None:
        self._resolve = resolve
        self._deadline_s = deadline_s
        self._context_of = context_of
        self._handle: Handle | None = None
        self._arrived: deque[tuple[Step, asyncio.Future[int]]] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._hold: asyncio.Handle | None = None

    async def act(self, step: Step) -> int:
        loop = asyncio.get_running_loop()
        if not self._arrived:
            busy = len(self._calls) >= MAX_CALLS
            self._hold = (
                loop.call_later(MAX_HOLD_S, self._send) if busy else loop.call_soon(self._send)
            )
        answer: asyncio.Future[int] = loop.create_future()
        self._arrived.append((step, answer))
        return await answer

    def _send(self) -> None:
        batch = list(self._arrived)
        self._arrived.clear()
        context = self._context_of(batch[0][0].request_id)
        call = asyncio.create_task(self._act(batch), context=context)
        self._calls.add(call)
        call.add_done_callback(self._returned)

    def _returned(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._arrived and self._hold is not None:
            self._hold.cancel()
            self._send()

    async def _act(self, batch: list[tuple[Step, asyncio.Future[int]]]) -> None:
        steps = [(step.run, step.junction_id, step.obs) for step, _ in batch]
        try:
            outcomes = await self._call(lambda handle: handle.act(steps))
            for (_, answer), outcome in zip(batch, outcomes, strict=True):
                _settle(answer, outcome)
        except (Exception, asyncio.CancelledError) as error:  # gRPC cancels the calls of a channel
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(_unavailable(error))

    async def reset(self, run: str | None, request_id: str | None) -> None:
        outcome = await self._call(lambda handle: handle.reset_run(run))
        if not isinstance(outcome, str):
            raise error_of(*outcome[1:])

    async def health(self) -> str:
        return str(await self._call(lambda handle: handle.health_status()))

    async def _call(self, method: Callable[[Handle], Awaitable[Any]]) -> Any:
        try:
            async with asyncio.timeout(self._deadline_s):
                if self._handle is None:
                    self._handle = await self._resolve()
                return await method(self._handle)
        except Exception as error:
            raise _unavailable(error) from error

    async def close(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
        for _, answer in self._arrived:
            answer.cancel()
        self._arrived.clear()
        for call in self._calls:
            call.cancel()


def _settle(answer: asyncio.Future[int], outcome: Any) -> None:
    if answer.done():
        return  # the client has gone
    try:
        if outcome[0] == "error":
            raise error_of(*outcome[1:])
        answer.set_result(checked_action(outcome[0]))
    except Exception as error:
        answer.set_exception(error)


def _unavailable(error: BaseException) -> InferenceUnavailableError:
    if isinstance(error, InferenceUnavailableError):
        return error
    if isinstance(error, TimeoutError):
        return InferenceUnavailableError("too_slow")
    if type(error).__name__ == "BackPressureError":
        return InferenceUnavailableError("overloaded", str(error))
    return InferenceUnavailableError("unreachable", f"{type(error).__name__}: {error}")
