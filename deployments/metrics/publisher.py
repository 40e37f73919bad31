"""The task that publishes a replica's counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PERIOD_S = 1.0


class Publisher:
    """Calls ``publish`` once a second until it is stopped; to be created in an event loop."""

    def __init__(self, publish: Callable[[], None], period_s: float = PERIOD_S) -> None:
        self._publish = [publish]
        self._period_s = period_s
        self._task = asyncio.create_task(self._run(), name="metrics")

    def add(self, publish: Callable[[], None]) -> None:
        """Have something else published as well."""
        self._publish.append(publish)

    def check_health(self) -> None:
        """Raise when the task has died.

        Raises:
            RuntimeError: nothing is published any more; the message says why.
        """
        if self._task.done():
            cause = None if self._task.cancelled() else self._task.exception()
            raise RuntimeError("the metrics are not published any more") from cause

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            for publish in self._publish:
                publish()
