from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest

from deployments.aio import PeriodicTask
from deployments.feed.hub import LISTEN_S
from deployments.feed.messages import NO_DEMAND, Contents, Demand, Report
from deployments.feed.publisher import (
    ALIVE_S,
    DEADLINE_S,
    MISSING_S,
    PERIOD_S,
    NoFeedError,
    Publisher,
)
from tests.support.virtual_time import virtual_time
from tests.unit.console.reports import INFERENCE

WATCHED = Demand(True, frozenset({"run"}))
MOMENT_S = PERIOD_S / 4


@dataclass
class FakeService:
    """What a replica tells; it fails when the test says so.

    Attributes:
        at_work: requests come in.
    """

    at_work: bool = True
    error: Exception | None = None
    demands: list[Demand] = field(default_factory=list)
    requests: int = 0
    taken: int = 0
    noted: dict[str, int] = field(default_factory=dict)

    def on_demand_changed(self, demand: Demand) -> None:
        self.demands.append(demand)

    def take(self) -> Contents:
        if self.error is not None:
            raise self.error
        self.taken += 1
        self.requests += self.at_work
        noted, self.noted = self.noted, {}
        return Contents(self.requests, runs=noted)


class FakeFeed:
    """A feed that answers or hangs.

    Attributes:
        listening: calls that wait for a console.
    """

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.reports: list[Report] = []
        self.found = self.listening = 0
        self.dead = False
        self.answers = asyncio.Event()
        self.answers.set()
        self._changed = asyncio.Event()

    async def find(self) -> FakeFeed:
        self.found += 1
        self.dead = False
        return self

    async def report(self, report: Report) -> Demand:
        self.reports.append(report)
        await self.answers.wait()
        if self.dead:
            raise NoFeedError
        return self.demand

    async def listen(self, known: Demand) -> Demand:
        self.listening += 1
        await self.answers.wait()
        if self.demand == known:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LISTEN_S)
        return self.demand

    def say(self, demand: Demand) -> None:
        self.demand = demand
        self._changed.set()
        self._changed = asyncio.Event()


def start(demand: Demand = NO_DEMAND) -> tuple[FakeService, FakeFeed]:
    """Report to a feed, until the loop of the test ends."""
    service, feed = FakeService(), FakeFeed(demand)
    PeriodicTask("The feed", Publisher(INFERENCE, service, feed.find).step, PERIOD_S)
    return service, feed


@virtual_time
async def test_while_nobody_watches_nothing_is_noted_said_or_looked_at():
    service, feed = start()
    await asyncio.sleep(1000)
    assert (feed.found, feed.reports, service.demands, service.taken) == (1, [], [], 0)
    assert feed.listening == pytest.approx(1000 / (LISTEN_S + PERIOD_S), abs=2)


@virtual_time
async def test_while_somebody_watches_it_tells_what_there_is_and_whose_it_is():
    service, feed = start()
    await asyncio.sleep(100)
    feed.say(WATCHED)
    await asyncio.sleep(10 * PERIOD_S + MOMENT_S)
    assert service.demands == [WATCHED]
    assert [report.contents.requests for report in feed.reports] == list(range(1, 11))
    assert {report.source for report in feed.reports} == {INFERENCE}
    feed.say(NO_DEMAND)
    await asyncio.sleep(2 * PERIOD_S)
    assert service.demands == [WATCHED, NO_DEMAND]
    assert len(feed.reports) == 11


@virtual_time
async def test_where_there_is_no_news_it_gives_a_sign_of_life_alone():
    service, feed = start(WATCHED)
    service.at_work = False
    await asyncio.sleep(10 * ALIVE_S)
    assert 10 * ALIVE_S / (ALIVE_S + PERIOD_S) <= len(feed.reports) <= 11
    service.noted = {"run": 1}
    await asyncio.sleep(PERIOD_S)
    assert feed.reports[-1].contents.runs == {"run": 1}


@virtual_time
async def test_a_feed_that_hangs_has_one_report_and_nothing_is_noted_for_it(caplog):
    service, feed = start(WATCHED)
    await asyncio.sleep(PERIOD_S + MOMENT_S)
    feed.answers.clear()
    await asyncio.sleep(100 * DEADLINE_S)
    assert len(feed.reports) == 1
    assert service.demands == [WATCHED, NO_DEMAND]
    assert [each.getMessage() for each in caplog.records] == [
        "The feed does not serve: TimeoutError()"
    ]
    feed.answers.set()
    await asyncio.sleep(LISTEN_S)
    assert service.demands == [WATCHED, NO_DEMAND, WATCHED]


@virtual_time
async def test_a_feed_that_dies_is_looked_for_again_without_a_word(caplog):
    service, feed = start(WATCHED)
    await asyncio.sleep(PERIOD_S + MOMENT_S)
    feed.dead = True
    await asyncio.sleep(PERIOD_S)
    assert service.demands == [WATCHED, NO_DEMAND]
    await asyncio.sleep(MISSING_S + PERIOD_S)
    assert service.demands == [WATCHED, NO_DEMAND, WATCHED]
    assert feed.found == 2
    assert not caplog.records


@virtual_time
async def test_what_cannot_be_told_is_lost_and_neither_is_the_task():
    service, feed = start(WATCHED)
    await asyncio.sleep(PERIOD_S + MOMENT_S)
    service.error = ValueError("no such policy")
    await asyncio.sleep(5 * MISSING_S)
    assert service.demands[-1] == NO_DEMAND
    service.error = None
    await asyncio.sleep(2 * MISSING_S)
    assert feed.reports
