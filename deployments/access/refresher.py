"""The tasks that keep what a replica knows about access up to date, beside the requests."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable, Mapping

from deployments.access.keys import Keys
from deployments.access.tokens import Tokens
from deployments.log import Outages

PERIOD_S = 1.0


class Refresher:
    """Takes each step once a period until it is stopped; to be created in an event loop.

    A step that fails is tried again a period later, and the log tells when that began and ended.

    Args:
        steps: by what they read, as the log names it.
    """

    def __init__(
        self, steps: Mapping[str, Callable[[], Awaitable[None]]], period_s: float = PERIOD_S
    ) -> None:
        self._period_s = period_s
        # each in a task of its own: a disk that hangs must not keep revocations from being read
        self._tasks = {
            asyncio.create_task(
                self._repeat(step, Outages(name)), context=contextvars.Context()
            ): name
            for name, step in steps.items()
        }

    def check_health(self) -> None:
        """Raise when a task has died.

        Raises:
            RuntimeError: something is not followed any more; the message says what.
        """
        for task in filter(asyncio.Task.done, self._tasks):
            cause = None if task.cancelled() else task.exception()
            raise RuntimeError(f"{self._tasks[task]} is not followed any more") from cause

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _repeat(self, step: Callable[[], Awaitable[None]], outages: Outages) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await _take(step, outages)


async def _take(step: Callable[[], Awaitable[None]], outages: Outages) -> None:
    try:
        await step()
    except Exception as error:  # whatever files, stores and libraries raise: the task must live
        outages.failed(error)
    else:
        outages.served()


async def start_refresher(tokens: Tokens, read_keys: Callable[[], Keys]) -> Refresher:
    """Keep tokens up to date from now on; what is revoked is known at once, if it can be."""
    revocations = tokens.refresh_revocations
    with contextlib.suppress(Exception):  # told by the next trial; the options say what holds
        await revocations()
    return Refresher(
        {
            "The file of keys": following_keys(tokens, read_keys),
            "The list of revocations": revocations,
        }
    )


def following_keys(tokens: Tokens, read: Callable[[], Keys]) -> Callable[[], Awaitable[None]]:
    """Return the step that has tokens signed and verified with the keys of the moment.

    Args:
        read: returns the keys, the same object while they are the same; it may wait for a disk.
    """

    async def follow() -> None:
        keys = await asyncio.to_thread(read)
        if keys is not tokens.keys:
            tokens.use(keys)

    return follow
