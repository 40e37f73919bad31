"""The gateway's client of the inference service: a deadline, a circuit breaker and one retry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from deployments.gateway.errors import BadRequestError, Cause, InferenceUnavailableError
from deployments.gateway.inference_calls.batcher import CallBatcher, Decided, Step
from deployments.gateway.inference_calls.breaker import CircuitBreaker, State
from deployments.gateway.inference_calls.http_calls import HttpCalls

BREAKER_FAILURES = 5  # in a row: more than one replica that dies costs
BREAKER_PAUSE_S = 1.0
RETRY_PAUSE_S = 0.05
_RETRIED: frozenset[Cause] = frozenset({"unreachable", "failing", "overloaded", "outcome_unknown"})


class InferenceClient:
    """Calls the inference service, unless it has just been seen to be down.

    Args:
        deadline_s: for a step, its second call included.
        shares_calls: whether steps that arrive together share a call.
        on_breaker: called when the breaker opens or closes.
    """

    def __init__(
        self,
        calls: HttpCalls,
        deadline_s: float,
        *,
        shares_calls: bool = False,
        on_breaker: Callable[[State], None] = lambda state: None,
    ) -> None:
        self.breaker = CircuitBreaker(BREAKER_FAILURES, BREAKER_PAUSE_S, on_breaker)
        self._calls = calls
        self._deadline_s = deadline_s
        self._batcher = CallBatcher(calls.step)
        self._step: Callable[[Step], Awaitable[Decided]] = self._step_alone
        if shares_calls:
            self._step = self._batcher.submit

    async def act(self, step: Step) -> Decided:
        """Return the decision.

        The step is called once more where that may help: with its key it stays one step.

        Raises:
            InferenceUnavailableError: no usable answer, or the breaker is open.
            BadRequestError: the inference service refuses the request as such.
        """
        now = asyncio.get_running_loop().time
        gives_up_at = now() + self._deadline_s
        with self.breaker.guard():
            try:
                return await self._step(step)
            except InferenceUnavailableError as error:
                if error.cause not in _RETRIED or now() + RETRY_PAUSE_S >= gives_up_at:
                    raise
                return await self._retry(step, gives_up_at)

    async def _retry(self, step: Step, gives_up_at: float) -> Decided:
        try:
            async with asyncio.timeout_at(gives_up_at):
                await asyncio.sleep(RETRY_PAUSE_S)
                return await self._step(step)
        except TimeoutError as error:
            raise InferenceUnavailableError("too_slow") from error

    async def _step_alone(self, step: Step) -> Decided:
        (outcome,) = await self._calls.step([step])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def reset(self, run: str | None, key: str, request_id: str | None) -> None:
        """Clear a run. Rare and wanted, so it is always tried."""
        await self._calls.reset(run, key, request_id)

    async def is_healthy(self) -> bool:
        """Return whether the inference service says that it is healthy."""
        try:
            return await self._calls.health() == "healthy"
        except (InferenceUnavailableError, BadRequestError):
            return False

    async def close(self) -> None:
        """Close all connections, and leave no caller waiting."""
        self._batcher.close()
        await self._calls.close()
