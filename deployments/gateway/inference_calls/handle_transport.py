"""Calls of the inference application through a Serve handle."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from deployments.gateway.inference_calls.client import (
    Cause,
    InferenceUnavailableError,
    Step,
    checked_action,
    error_of,
)
from deployments.gateway.inference_calls.shared_calls import Outcome, SharedCalls


class Handle(Protocol):
    """The methods of the inference deployment, as awaitable calls; plain tuples in and out."""

    def act(self, steps: list[tuple[str | None, str, list[float], str]]) -> Awaitable[list[Any]]:
        """Return for each step (action, confidence) or ("error", HTTP status, detail, code).

        Args:
            steps: each (run, junction id, observation, idempotency key).
        """

    def reset_run(self, run: str | None) -> Awaitable[Any]:
        """Return a message, or ("error", HTTP status, detail, code); the code may be None."""

    def health_status(self) -> Awaitable[str]: ...


class HandleTransport:
    """Implements :class:`.client.Transport`; steps share calls.

    Args:
        resolve: finds the handle, anew until it succeeds: the application may start later.
        deadline_s: for finding the handle, queue and answer together.
        context_of: see :class:`.shared_calls.SharedCalls`.
    """

    def __init__(
        self,
        resolve: Callable[[], Awaitable[Handle]],
        deadline_s: float,
        context_of: Callable[[str | None], contextvars.Context] = lambda _: contextvars.Context(),
    ) -> None:
        self._resolve = resolve
        self._deadline_s = deadline_s
        self._handle: Handle | None = None
        self._shared = SharedCalls(self._act, context_of)

    async def act(self, step: Step) -> int:
        return await self._shared.act(step)

    async def reset(self, run: str | None, request_id: str | None) -> None:
        outcome = await self._call(lambda handle: handle.reset_run(run))
        if not isinstance(outcome, str):
            raise error_of(*outcome[1:])

    async def health(self) -> str:
        return str(await self._call(lambda handle: handle.health_status()))

    async def close(self) -> None:
        self._shared.close()

    async def _act(self, steps: Sequence[Step]) -> list[Outcome]:
        plain = [(step.run, step.junction_id, step.obs, step.key) for step in steps]
        return [_read(answer) for answer in await self._call(lambda handle: handle.act(plain))]

    async def _call(self, method: Callable[[Handle], Awaitable[Any]]) -> Any:
        try:
            async with asyncio.timeout(self._deadline_s):
                if self._handle is None:
                    self._handle = await self._resolve()
                return await method(self._handle)
        except TimeoutError as error:
            raise InferenceUnavailableError("too_slow") from error
        except Exception as error:
            name = type(error).__name__
            cause: Cause = "overloaded" if name == "BackPressureError" else "unreachable"
            raise InferenceUnavailableError(cause, f"{name}: {error}") from error


def _read(answer: Any) -> Outcome:
    try:
        return error_of(*answer[1:]) if answer[0] == "error" else checked_action(answer[0])
    except InferenceUnavailableError as error:
        return error
    except (TypeError, IndexError, KeyError):
        return InferenceUnavailableError("unusable", f"answer {answer!r:.50}")
