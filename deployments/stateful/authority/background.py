"""Background tasks: kept from the garbage collector, with their failures reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger("ray.serve")


class BackgroundTasks:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work whose failure affects nothing else; it is logged."""

        def log(error: BaseException) -> None:
            logger.error("Background work failed", exc_info=error)

        self.supervise(work, log)

    def supervise(
        self, work: Coroutine[Any, Any, None], on_failure: Callable[[BaseException], None]
    ) -> None:
        """Run work, and report its failure."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                on_failure(error)

        task.add_done_callback(done)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()
