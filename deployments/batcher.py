"""Batches: items that arrive in one turn of the event loop run together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH = 64  # bounds how long one holds the event loop; more steps with a key are refused


class Batcher(Generic[Item, Result]):
    """Collects items, and runs them at the end of the turn in which the first one arrived.

    Args:
        run: runs a batch, and settles each of its futures.
    """

    def __init__(self, run: Callable[[list[tuple[Item, asyncio.Future[Result]]]], None]) -> None:
        self._run = run
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._timer: asyncio.Handle | None = None

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Queue an item, and return a future of its result."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._timer = self._schedule(loop)
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, answer))
        return answer

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> asyncio.Handle:
        return loop.call_soon(self._run_waiting)

    def _run_waiting(self) -> None:
        # a disconnected client has cancelled its future
        waiting = [(item, answer) for item, answer in self._waiting if not answer.done()]
        self._waiting = []
        for batch in self._divide(waiting):
            for first in range(0, len(batch), MAX_BATCH):
                self._run(batch[first : first + MAX_BATCH])

    def _divide(
        self, waiting: list[tuple[Item, asyncio.Future[Result]]]
    ) -> Iterable[list[tuple[Item, asyncio.Future[Result]]]]:
        """Return the items that may share a batch."""
        return [waiting]


def settle(
    batch: Sequence[tuple[Item, asyncio.Future[Result]]], outcomes: Sequence[Result | Exception]
) -> None:
    """Give each item of a batch its outcome, unless its client has gone meanwhile."""
    for (_, answer), outcome in zip(batch, outcomes, strict=True):
        if answer.done():
            continue
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
