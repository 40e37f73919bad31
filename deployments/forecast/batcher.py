"""Batches forecasts.

The first request of an event-loop turn schedules a batch for the end of the turn, and all requests
of the turn join it. The batcher never waits for more: a forecast costs less than any wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH = 64  # bounds how long one batch holds the event loop


class Batcher(Generic[Item, Result]):
    """Collects items and runs them together.

    Args:
        run: returns a result for each item, in their order, on the event loop.
    """

    def __init__(self, run: Callable[[list[Item]], Sequence[Result]]) -> None:
        self._run = run
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Queue an item; the future fails as the whole batch does."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._run_waiting)
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, answer))
        return answer

    def _run_waiting(self) -> None:
        # a disconnected client has cancelled its future
        waiting = [(item, answer) for item, answer in self._waiting if not answer.done()]
        self._waiting = []
        for first in range(0, len(waiting), MAX_BATCH):
            self._run_batch(waiting[first : first + MAX_BATCH])

    def _run_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = self._run([item for item, _ in batch])
        except Exception as error:
            for _, answer in batch:
                answer.set_exception(error)
        else:
            for (_, answer), result in zip(batch, results, strict=True):
                answer.set_result(result)
