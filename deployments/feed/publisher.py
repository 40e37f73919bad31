"""The task by which a replica tells the feed what is asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from deployments.feed.board import Connection
from deployments.feed.messages import NOBODY, Contents, Demand, Report, Said, Source
from deployments.log import RateLimitedLogger

PERIOD_S = 0.4
ALIVE_S = 2.0  # a sign of life, where there is no news
MISSING_S = 3.0
DEADLINE_S = 1.0


class Reporter(Protocol):
    """What a service tells; all of it is called in the event loop of its replica."""

    def on_demand_changed(self, demand: Demand) -> None:
        """Note from now on what is asked for, and nothing else."""

    def take(self) -> Contents:
        """Return what was noted since the last call."""


class NoFeedError(LookupError):
    """There is no feed: nothing is deployed that would read it."""


class SilentFeedError(Exception):
    """The feed has not answered in time."""


FindFeed = Callable[[], Awaitable[Connection]]
"""Connects to the feed without blocking the event loop; raises NoFeedError."""


class FeedPublisher:
    """Tells the feed what is asked for; to be created in an event loop.

    While nothing is, it waits to be told otherwise, which costs nothing. No request ever waits for
    it, and nothing is noted for a feed that hangs.

    Args:
        source: whose reports these are.
    """

    def __init__(self, source: Source, reporter: Reporter, find: FindFeed) -> None:
        self._source = source
        self._reporter = reporter
        self._find = find
        self._demand = NOBODY
        self._log = RateLimitedLogger("The console's feed")
        self._task = asyncio.create_task(self._run(), name="feed")

    def check_health(self) -> None:
        """Raise when the task has died.

        Raises:
            RuntimeError: nothing is told any more; the message says why.
        """
        if self._task.done():
            cause = None if self._task.cancelled() else self._task.exception()
            raise RuntimeError("the console is not told anything any more") from cause

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._talk(await self._find())
            except NoFeedError:
                pass
            except Exception as error:  # whatever Ray or a report raises, no request shall feel it
                self._log.warning(type(error).__name__, "Reports are lost: %r", error)
            self._heed(NOBODY)
            await asyncio.sleep(MISSING_S)

    async def _talk(self, feed: Connection) -> None:
        """Do as the feed says until the connection ends, which raises."""
        reports = _Reports(self._source, self._reporter, feed)
        saying = asyncio.ensure_future(feed.receive())
        try:
            while True:
                wait_s = reports.wait_s if self._demand.watched else None
                await asyncio.wait({saying}, timeout=wait_s)
                if not saying.done():
                    reports.go_on()
                    continue
                said = Said.decode(saying.result())
                saying = asyncio.ensure_future(feed.receive())
                reports.taken = said.taken
                self._heed(said.demand)
        finally:
            saying.cancel()
            feed.abort()

    def _heed(self, demand: Demand) -> None:
        if demand != self._demand:
            self._demand = demand
            self._reporter.on_demand_changed(demand)


class _Reports:
    """Those over one connection: at most one is on its way.

    Attributes:
        taken: how many the feed has taken.
    """

    def __init__(self, source: Source, reporter: Reporter, feed: Connection) -> None:
        self.taken = 0
        self._source = source
        self._reporter = reporter
        self._feed = feed
        self._sent = 0
        self._sent_at = self._looked_at = -ALIVE_S
        self._totals: object = None

    @property
    def wait_s(self) -> float:
        """For how long there is nothing to do, unless the feed says something."""
        if self.taken < self._sent:
            return DEADLINE_S
        return max(0.0, self._looked_at + PERIOD_S - _now())

    def go_on(self) -> None:
        """Send what is new, or a sign of life when it is time for one.

        Raises:
            SilentFeedError: the last report was not answered.
        """
        if self.taken < self._sent:
            raise SilentFeedError
        contents = self._reporter.take()
        self._looked_at = _now()
        is_new = contents.events or contents.totals != self._totals
        if is_new or self._looked_at - self._sent_at >= ALIVE_S:
            self._feed.send(Report(self._source, time.time(), contents).encode())
            self._totals = contents.totals
            self._sent_at = self._looked_at
            self._sent += 1


def _now() -> float:
    return asyncio.get_running_loop().time()
