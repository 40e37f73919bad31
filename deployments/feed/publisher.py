"""How a replica reports to the feed while a console is open."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from deployments.feed.hub import LISTEN_S
from deployments.feed.messages import NO_DEMAND, Contents, Demand, Report, Source

PERIOD_S = 0.4
ALIVE_S = 2.0  # between two reports without news
MISSING_S = 3.0
DEADLINE_S = 1.0


class Reporter(Protocol):
    """What a service reports; all of it is called in the event loop of its replica."""

    def on_demand_changed(self, demand: Demand) -> None:
        """Note from now on what the demand covers, and nothing else."""

    def take(self) -> Contents:
        """Return what was noted since the last call."""


Event = TypeVar("Event")


class WatchedEvents(Generic[Event]):
    """Keeps the latest events of a replica while a console is open.

    Args:
        most: events between two calls of :meth:`take`.

    Attributes:
        watched: whether a console is open; otherwise nothing must be noted.
        runs: whose decisions are shown.
    """

    def __init__(self, most: int) -> None:
        self.watched, self.runs = NO_DEMAND
        self._events: deque[Event] = deque(maxlen=most)

    def on_demand_changed(self, demand: Demand) -> None:
        self.watched, self.runs = demand
        if demand == NO_DEMAND:
            self._events.clear()

    def note(self, event: Event) -> None:
        self._events.append(event)

    def take(self) -> list[Event]:
        """Return what was noted since the last call."""
        events = list(self._events)
        self._events.clear()
        return events


class Feed(Protocol):
    """The feed as a replica sees it. Its calls raise NoFeedError when it has died."""

    async def report(self, report: Report) -> Demand:
        """Take a report; return the demand."""

    async def listen(self, known: Demand) -> Demand:
        """Return the demand, once it differs from the known one or after LISTEN_S."""


class NoFeedError(LookupError):
    """There is no feed: no console is deployed."""


class Publisher:
    """Reports to the feed what consoles ask for.

    While no console is open, it waits in a long poll. No request waits for it, and nothing is noted
    for a feed that hangs.

    Args:
        source: of the reports.
        find: returns the feed without blocking the event loop; raises NoFeedError.
    """

    def __init__(
        self, source: Source, reporter: Reporter, find: Callable[[], Awaitable[Feed]]
    ) -> None:
        self._source = source
        self._reporter = reporter
        self._find = find
        self._feed: Feed | None = None
        self._demand = NO_DEMAND
        self._reported_at = -ALIVE_S
        self._totals: object = None

    async def step(self) -> None:
        """Make one call of the feed: a report, or the wait for a console.

        Raises:
            TimeoutError: the feed hangs. Whatever Ray or the reporter raises passes as well. The
                next step looks for the feed again.
        """
        try:
            if self._feed is None:
                self._feed = await self._find()
            is_watched = self._demand.watched
            async with asyncio.timeout(DEADLINE_S + (0 if is_watched else LISTEN_S)):
                if is_watched:
                    demand = await self._report(self._feed)
                else:
                    demand = await self._feed.listen(self._demand)
            self._set_demand(demand)
        except NoFeedError:
            await self._lose_feed()
        except Exception:
            await self._lose_feed()
            raise

    async def _report(self, feed: Feed) -> Demand:
        """Report the news, or at least every ALIVE_S that this replica is alive."""
        contents, now = self._reporter.take(), asyncio.get_running_loop().time()
        totals = contents.requests, contents.breaker, contents.fallbacks
        has_events = bool(contents.runs or contents.decisions or contents.forecasts)
        is_silent = totals == self._totals and not has_events
        if is_silent and now - self._reported_at < ALIVE_S:
            return self._demand
        self._totals, self._reported_at = totals, now
        return await feed.report(Report(self._source, time.time(), contents))

    async def _lose_feed(self) -> None:
        self._feed = None
        self._set_demand(NO_DEMAND)
        await asyncio.sleep(MISSING_S)

    def _set_demand(self, demand: Demand) -> None:
        if demand != self._demand:
            self._demand = demand
            self._reporter.on_demand_changed(demand)
