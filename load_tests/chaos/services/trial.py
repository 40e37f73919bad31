"""Something that happens under the load of all services' clients, and what they saw of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import aiohttp
import httpx

from load_tests.chaos.lineage import Harm, judge
from load_tests.chaos.services.event import Event
from load_tests.chaos.services.house import House, Mishap
from load_tests.chaos.services.requests import (
    ANSWERED,
    TIMEOUT_S,
    Record,
    Request,
    decisions,
    density_forecasts,
    flow_forecasts,
    new_records,
    predictions,
    send_for_ever,
)

PERIOD_S = 0.1
BEFORE_S = 2.0
_UNDOCUMENTED = ("500", "404", "no answer")
_NUMBERS = itertools.count(1_000_000_000, 1_000_000)


@dataclass(frozen=True)
class Outcome:
    """What an event has cost.

    Attributes:
        away_s: longest time in which a service answered nobody, by service.
        kinds: how many requests ended how, over all services.
        lost, missing: answered steps, and acknowledged records, that are there no more.
        whole: whether the system became whole again.
        mishap: why the event was not what it should be, None if it was.
    """

    event: Event
    away_s: dict[str, float]
    slowest_s: float
    kinds: Counter[str]
    lost: int
    missing: int
    whole: bool
    mishap: str | None = None

    def complaints(self, slack_s: float = 0.0) -> list[str]:
        """Return what is worse than it may be, as sentences.

        Args:
            slack_s: so much longer a service may be away, on a machine that has others to serve.
        """
        bars = {name: self.event.spared.get(name, self.event.bar_s) for name in self.away_s}
        late = {n: s for n, s in self.away_s.items() if s > bars[n] + slack_s}
        found = [f"{n} was away for {s:.1f} s, not {bars[n]:.0f}" for n, s in late.items()]
        if self.lost and not self.event.may_lose:
            found.append(f"{self.lost} answered steps are lost, doubled or revived")
        if self.missing:
            found.append(f"{self.missing} acknowledged records are missing")
        forbidden = [kind for kind in self.kinds if kind.startswith(_UNDOCUMENTED)]
        if not self.event.may_break:
            forbidden += [kind for kind in self.kinds if kind.startswith("connection")]
        if forbidden:
            found.append(f"clients saw {', '.join(forbidden)}")
        unanswered = self.kinds.total() - self.kinds[ANSWERED]
        if self.event.flawless and unanswered:
            found.append(f"{unanswered} requests were not answered by their service")
        if not self.whole:
            found.append("not everything was there again")
        if self.mishap:
            found.append(self.mishap)
        return found


async def run_trial(house: House, event: Event, seconds: float) -> Outcome:
    """Load every service for ``seconds``, and until all is there again; let the event happen.

    Raises:
        Mishap: the system is not there, or not as it is to be beforehand.
    """
    await asyncio.to_thread(house.furnish, event.config())
    token = await asyncio.to_thread(house.log_in)
    record = Record()
    async with _load(house, token, record) as began:
        await asyncio.sleep(BEFORE_S)
        moment = time.monotonic()
        mishap = await asyncio.to_thread(_happen, event, house)
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        whole = await asyncio.to_thread(house.wait_until_whole)
        await asyncio.sleep(BEFORE_S)
        end = time.monotonic()
    services = sorted({each.service for each in record.seen})
    verdict = judge(record.history, [moment])
    return Outcome(
        event,
        {name: record.away_s(name, moment, end) for name in services},
        max(record.slowest_s(name) for name in services),
        sum((record.counts(name) for name in services), Counter()),
        sum(verdict.steps(harm) for harm in Harm),
        await asyncio.to_thread(_count_missing, house, record.created),
        whole,
        mishap,
    )


def _happen(event: Event, house: House) -> str | None:
    try:
        event.happen(house)
    except Mishap as mishap:
        return str(mishap)
    return None


@contextlib.asynccontextmanager
async def _load(house: House, token: str, record: Record) -> AsyncIterator[float]:
    """Send requests to every service; yield the moment of the first."""
    stop = asyncio.Event()
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        asyncio.TaskGroup() as group,
    ):
        for service, url, requests in _requests(house, token, record):
            sending = send_for_ever(session, service, url, requests, record, PERIOD_S, stop)
            group.create_task(sending)
        try:
            yield time.monotonic()
        finally:
            stop.set()


def _requests(
    house: House, token: str, record: Record
) -> Iterator[tuple[str, str, Iterator[Request]]]:
    run, urls = uuid.uuid4().hex[:12], house.edge.urls()
    yield "inference", house.instance.base_url, predictions(run, record)
    yield "gateway", urls["gateway"], decisions(f"{run}.gateway", token)
    yield "density", urls["density"], density_forecasts()
    yield "flow", urls["density"], flow_forecasts()
    for kind in ("loans", "cards"):
        yield kind, urls[kind], new_records(kind, next(_NUMBERS), record)


def _count_missing(house: House, created: list[tuple[str, str]]) -> int:
    """Look for every record whose creation was acknowledged."""
    urls = house.edge.urls()
    missing = 0
    with httpx.Client(timeout=TIMEOUT_S) as client:
        for kind, path in created:
            try:
                missing += client.get(urls[kind] + path).status_code != 200
            except httpx.HTTPError:
                missing += 1
    return missing
