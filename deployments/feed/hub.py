"""The hub between the reports of replicas and the consoles that watch; it has no history."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from deployments.feed.messages import NO_DEMAND, Demand, Report

COLLECT_S = 1.0
FORGET_S = 5.0
LISTEN_S = 30.0
MAX_REPORTS = 1000  # for each watcher; it collects them several times a second
MAX_RUNS = 16


@dataclass
class _Watcher:
    runs: Sequence[str]
    seen_at: float
    reports: deque[Report] = field(default_factory=lambda: deque(maxlen=MAX_REPORTS))
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """Queues each report for all watchers, and returns their demand to replicas."""

    def __init__(self) -> None:
        self._watchers: dict[str, _Watcher] = {}
        self._demand = NO_DEMAND
        self._changed = asyncio.Event()

    def report(self, report: Report) -> Demand:
        """Queue the report of a replica; return the current demand."""
        self._forget_silent()
        for watcher in self._watchers.values():
            watcher.reports.append(report)
            watcher.news.set()
        return self._demand

    async def listen(self, known: Demand) -> Demand:
        """Return the demand as soon as it differs from the known one, or after LISTEN_S."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_S):
                while self._demand == known:
                    await self._changed.wait()
        return self._demand

    async def collect(self, name: str, runs: Sequence[str]) -> list[Report]:
        """Return the reports since a watcher's last call; wait up to COLLECT_S for the first.

        A watcher that does not call for FORGET_S is forgotten.

        Args:
            name: of the watcher.
            runs: whose decisions it wants.
        """
        now = asyncio.get_running_loop().time()
        watcher = self._watchers.setdefault(name, _Watcher(runs, now))
        watcher.runs, watcher.seen_at = runs, now
        self._forget_silent()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COLLECT_S):
                await watcher.news.wait()
        watcher.news.clear()
        reports = list(watcher.reports)
        watcher.reports.clear()
        return reports

    def _forget_silent(self) -> None:
        since = asyncio.get_running_loop().time() - FORGET_S
        self._watchers = {name: w for name, w in self._watchers.items() if w.seen_at > since}
        runs = [run for watcher in self._watchers.values() for run in watcher.runs]
        demand = Demand(bool(self._watchers), frozenset(runs[:MAX_RUNS]))
        if demand != self._demand:
            self._demand = demand
            self._changed.set()
            self._changed = asyncio.Event()
