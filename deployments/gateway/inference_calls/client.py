"""The gateway's view of the inference service, whatever the transport: one deadline, one breaker.

A transport (:mod:`.http_transport`) makes the call; this module says what its outcomes mean.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, get_args

from deployments.gateway.errors import BadRequestError, KeyReusedError
from deployments.gateway.inference_calls.breaker import BreakerOpenError, CircuitBreaker
from deployments.trace_context import Trace
from models.junctions import N_ACTIONS

Cause = Literal[
    "unreachable",
    "not_loaded",
    "failing",
    "overloaded",
    "too_many_states",
    "outcome_unknown",
    "too_slow",
    "unusable",
    "breaker_open",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)

RETRY_PAUSE_S = 0.05
_RETRIED: frozenset[Cause] = frozenset({"unreachable", "failing", "overloaded", "outcome_unknown"})


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


def new_key() -> str:
    """Make an idempotency key that nobody has used."""
    return os.urandom(12).hex()


class InferenceUnavailableError(Exception):
    """The inference service gave no answer that can be used; the fallback takes its place."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause: Cause = cause


class NoPlaceError(InferenceUnavailableError):
    """The inference service keeps as many states as it may; those of other runs it steps."""

    def __init__(self, detail: str) -> None:
        super().__init__("too_many_states", detail)


class Transport(Protocol):
    """How calls reach the inference service.

    Every call ends within the deadline that the transport was made with, connecting and waiting in
    queues included. Beside what is listed, each raises InferenceUnavailableError.
    """

    async def act(self, step: Step) -> int:
        """Return the chosen action.

        Raises:
            BadRequestError: the inference service refuses the request as such.
        """

    async def reset(self, run: str | None, request_id: str | None) -> None:
        """Clear a run's hidden states. Raises BadRequestError like ``act``."""

    async def health(self) -> str:
        """Return the status that the inference service gives itself."""

    async def close(self) -> None: ...


def error_of(
    status: int, detail: str, code: str | None = None
) -> BadRequestError | InferenceUnavailableError:
    """Tell what an error answer of the inference service means.

    Args:
        code: why, if it says so: an inference service of another maker may not.
    """
    if code == "key_reused":
        return KeyReusedError(detail)
    if code == "outcome_unknown":
        return InferenceUnavailableError("outcome_unknown", detail)
    if status in (400, 422):
        return BadRequestError(detail)
    if status == 503 and code == "model_not_loaded":
        return InferenceUnavailableError("not_loaded")
    if status == 503 and code == "too_many_states":
        return NoPlaceError(detail)
    if status in (408, 429, 503):
        return InferenceUnavailableError("overloaded", detail)
    if status >= 500:
        return InferenceUnavailableError("failing", detail)
    return InferenceUnavailableError("unusable", f"{status} {detail}")


def checked_action(action: object, n_actions: int = N_ACTIONS) -> int:
    """Return an action that a junction may have.

    Raises:
        InferenceUnavailableError: it is none.
    """
    if type(action) is not int or not 0 <= action < n_actions:
        raise InferenceUnavailableError("unusable", f"action {action!r:.50}")
    return action


class InferenceClient:
    """Calls the inference service, unless it has just been seen to be down.

    Args:
        deadline_s: for a step, its second call included.
        on_answer: called with the seconds that each successful step took.
    """

    def __init__(
        self,
        transport: Transport,
        breaker: CircuitBreaker,
        deadline_s: float,
        on_answer: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.breaker = breaker
        self._transport = transport
        self._deadline_s = deadline_s
        self._on_answer = on_answer

    async def act(self, step: Step) -> int:
        """Return the chosen action.

        Raises:
            InferenceUnavailableError: nothing usable came, or nothing was asked.
            BadRequestError: the inference service refuses the request as such.
        """
        started = time.perf_counter()
        try:
            with self.breaker.guard():
                action = await self._act_or_say_why_not(step)
        except BreakerOpenError:
            raise InferenceUnavailableError("breaker_open") from None
        if isinstance(action, NoPlaceError):
            raise action
        self._on_answer(time.perf_counter() - started)
        return action

    async def _act_or_say_why_not(self, step: Step) -> int | NoPlaceError:
        """Return a refusal that is an answer: it does not open the breaker for other runs."""
        try:
            return await self._act(step)
        except NoPlaceError as refusal:
            return refusal

    async def _act(self, step: Step) -> int:
        """Call, and once more where that may help: with its key it stays one step."""
        now = asyncio.get_running_loop().time
        gives_up_at = now() + self._deadline_s
        try:
            return await self._transport.act(step)
        except InferenceUnavailableError as error:
            if error.cause not in _RETRIED or now() + RETRY_PAUSE_S >= gives_up_at:
                raise
        try:
            async with asyncio.timeout_at(gives_up_at):
                await asyncio.sleep(RETRY_PAUSE_S)
                return await self._transport.act(step)
        except TimeoutError as error:
            raise InferenceUnavailableError("too_slow") from error

    async def reset(self, run: str | None, request_id: str | None) -> None:
        """Clear a run. Rare and wanted, so it is always tried."""
        await self._transport.reset(run, request_id)

    async def is_healthy(self) -> bool:
        try:
            return await self._transport.health() == "healthy"
        except (InferenceUnavailableError, BadRequestError):
            return False

    async def close(self) -> None:
        await self._transport.close()
