"""Work in the event loop that belongs to no single request."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from deployments.log import Outages, logger

T = TypeVar("T")


class PeriodicTask:
    """A step that is repeated until the task is stopped. Create it in an event loop.

    An error of the step is logged, and the step is repeated. A replica is not replaced for it.

    Args:
        name: what the step keeps up to date, as in "The audit log", for the log.
        step: a function or a coroutine function.
        period_s: pause before the first step, and between two steps.
    """

    def __init__(
        self, name: str, step: Callable[[], Awaitable[None] | None], period_s: float = 1.0
    ) -> None:
        self._step = step
        self._period_s = period_s
        self._outages = Outages(name)
        # no request's context: a cancelled request must not cancel this task
        self._task = asyncio.create_task(self._run(), name=name, context=contextvars.Context())

    def stop(self) -> None:
        """Cancel the task."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            try:
                result = self._step()
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                self._outages.failed(error)
            else:
                self._outages.served()


def _log(error: BaseException) -> None:
    logger.error("Background work failed", exc_info=error)


class BackgroundTasks:
    """Tasks that no caller awaits: kept from the garbage collector, their failures reported."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(
        self, work: Coroutine[Any, Any, None], on_failure: Callable[[BaseException], None] = _log
    ) -> None:
        """Run work, and report its failure."""
        # no request's context: a cancelled request must not cancel this task
        task = asyncio.create_task(work, context=contextvars.Context())
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                on_failure(error)

        task.add_done_callback(done)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()


class SingleFlight(Generic[T]):
    """A call that all who ask at the same time share.

    Args:
        call: makes the call; no request's end cancels it.
    """

    def __init__(self, call: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._call = call
        self._task: asyncio.Task[T] | None = None

    def start(self) -> asyncio.Task[T]:
        """Return the call that is under way, after starting one if there is none."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._call(), context=contextvars.Context())
        return self._task

    async def result(self) -> T:
        """Return what the call returns, or raise what it raises."""
        return await asyncio.shield(self.start())

    def cancel(self) -> None:
        """Cancel the call that is under way, if any."""
        if self._task is not None:
            self._task.cancel()
