from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from deployments.feed.messages import NOBODY, Contents, Demand, Report, Said
from deployments.feed.publisher import (
    ALIVE_S,
    DEADLINE_S,
    MISSING_S,
    PERIOD_S,
    FeedPublisher,
    NoFeedError,
)
from tests.unit.feed.connections import FakeConnection
from tests.unit.feed.reports import SOURCE
from tests.unit.stateful.virtual_time import virtual_time

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


class FakeFeed(FakeConnection):
    """A feed that is there or not, and that answers or hangs."""

    def __init__(self, demand: Demand) -> None:
        super().__init__()
        self.demand = demand
        self.found = 0
        self.missing = False
        self.hangs = False
        self.most_at_once = 0

    async def find(self) -> FakeFeed:
        self.found += 1
        if self.missing:
            raise NoFeedError
        self.sent, self.coming, self.taken = [], asyncio.Queue(), 0
        self.say(self.demand)
        return self

    def say(self, demand: Demand) -> None:
        self.demand = demand
        if not self.hangs:
            self.coming.put_nowait(Said(demand, self.taken).encode())

    def send(self, payload: bytes) -> None:
        super().send(payload)
        self.most_at_once = max(self.most_at_once, len(self.sent) - self.taken)
        if not self.hangs:
            self.taken += 1
            self.say(self.demand)

    @property
    def reports(self) -> list[Report]:
        return [Report.decode(each) for each in self.sent]


def start(demand: Demand = NOBODY) -> tuple[FakeService, FakeFeed, FeedPublisher]:
    service, feed = FakeService(), FakeFeed(demand)
    return service, feed, FeedPublisher(SOURCE, service, feed.find)


@virtual_time
async def test_while_nobody_watches_nothing_is_noted_said_or_looked_at():
    service, feed, publisher = start()
    await asyncio.sleep(1000)
    assert (feed.found, feed.sent, service.demands, service.taken) == (1, [], [], 0)
    publisher.stop()


@virtual_time
async def test_while_somebody_watches_it_tells_what_there_is_and_whose_it_is():
    service, feed, publisher = start()
    await asyncio.sleep(100)
    feed.say(WATCHED)
    await asyncio.sleep(10 * PERIOD_S + MOMENT_S)
    assert service.demands == [WATCHED]
    assert [report.contents.requests for report in feed.reports] == list(range(1, 12))
    assert {report.source for report in feed.reports} == {SOURCE}
    feed.say(NOBODY)
    await asyncio.sleep(2 * PERIOD_S)
    assert service.demands == [WATCHED, NOBODY]
    assert len(feed.reports) == 11
    publisher.stop()


@virtual_time
async def test_where_there_is_no_news_it_gives_a_sign_of_life_alone():
    service, feed, publisher = start(WATCHED)
    service.at_work = False
    await asyncio.sleep(10 * ALIVE_S)
    assert 10 * ALIVE_S / (ALIVE_S + PERIOD_S) <= len(feed.reports) <= 11
    service.noted = {"run": 1}
    await asyncio.sleep(PERIOD_S)
    assert feed.reports[-1].contents.runs == {"run": 1}
    publisher.stop()


@virtual_time
async def test_another_demand_does_not_stand_for_the_answer_to_a_report():
    _, feed, publisher = start(WATCHED)
    await asyncio.sleep(PERIOD_S + MOMENT_S)
    feed.hangs = True
    for number in range(8):
        await asyncio.sleep(DEADLINE_S / 2)
        feed.coming.put_nowait(Said(Demand(True, frozenset({str(number)})), feed.taken).encode())
    assert feed.most_at_once == 1
    publisher.stop()


@virtual_time
async def test_a_feed_that_hangs_has_one_report_and_nothing_is_noted_for_it():
    service, feed, publisher = start(WATCHED)
    await asyncio.sleep(MOMENT_S)
    feed.hangs = True
    await asyncio.sleep(100 * DEADLINE_S)
    assert feed.most_at_once == 1
    assert feed.closed
    assert service.demands == [WATCHED, NOBODY]
    publisher.check_health()
    feed.hangs = False
    feed.say(WATCHED)
    await asyncio.sleep(MOMENT_S)
    assert service.demands == [WATCHED, NOBODY, WATCHED]
    publisher.stop()


@virtual_time
async def test_a_feed_that_answers_late_is_not_left():
    _, feed, publisher = start(WATCHED)
    await asyncio.sleep(MOMENT_S)
    feed.hangs = True
    await asyncio.sleep(PERIOD_S + DEADLINE_S / 2)
    feed.hangs, feed.taken = False, len(feed.sent)
    feed.say(WATCHED)
    await asyncio.sleep(10 * PERIOD_S)
    assert feed.found == 1
    assert len(feed.reports) > 10
    publisher.stop()


@virtual_time
async def test_a_feed_that_dies_is_looked_for_again():
    service, feed, publisher = start(WATCHED)
    await asyncio.sleep(MOMENT_S)
    feed.coming.put_nowait(None)
    await asyncio.sleep(MOMENT_S)
    assert service.demands == [WATCHED, NOBODY]
    await asyncio.sleep(MISSING_S)
    assert service.demands == [WATCHED, NOBODY, WATCHED]
    assert feed.found == 2
    publisher.stop()


@virtual_time
async def test_a_feed_that_is_nowhere_is_looked_for_now_and_then():
    _, feed, publisher = start(WATCHED)
    feed.missing = True
    await asyncio.sleep(100 * MISSING_S)
    assert feed.found == pytest.approx(100, abs=1)
    feed.missing = False
    await asyncio.sleep(MISSING_S + MOMENT_S)
    assert feed.reports
    publisher.stop()


@virtual_time
async def test_what_cannot_be_told_is_lost_and_neither_is_the_task():
    service, feed, publisher = start(WATCHED)
    await asyncio.sleep(MOMENT_S)
    service.error = ValueError("no such policy")
    await asyncio.sleep(5 * MISSING_S)
    publisher.check_health()
    assert service.demands[-1] == NOBODY
    service.error = None
    await asyncio.sleep(2 * MISSING_S)
    assert feed.reports
    publisher.stop()


@virtual_time
async def test_the_end_of_the_task_is_told_by_the_health_check():
    _, _, publisher = start()
    publisher.stop()
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="not told"):
        publisher.check_health()
