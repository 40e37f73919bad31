"""Requests of every service at a constant rate, and a record of their outcomes."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, cycle, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import aiohttp

from deployments.http.messages import RUN_HEADER
from load_tests.chaos.history import History, Key, Outcome, Prediction
from models.networks.shipped import JUNCTIONS

TIMEOUT_S = 10.0
PERIOD_S = 0.1
FALLBACK = "fallback"
ANSWERED = "answered"

HOUR_S, MINUTE_S = 3600, 60


class Seen(NamedTuple):
    """One request as its client saw it; times in seconds."""

    service: str
    sent: float
    done: float
    what: str


class Request(NamedTuple):
    """One request to send.

    Attributes:
        status: of a good answer.
        note: called with the times, body and headers of a good answer; returns its kind.
        miss: called with the times of any other outcome.
    """

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] | None = None
    status: int = 200
    note: Callable[[float, float, Any, Mapping[str, str]], str] = lambda *answer: ANSWERED
    miss: Callable[[float, float], None] = lambda *times: None


@dataclass
class Record:
    """Everything that clients saw.

    Attributes:
        history: of the hidden states, for the checker.
        created: service and path of each record whose creation was acknowledged.
    """

    seen: list[Seen] = field(default_factory=list)
    history: History = field(default_factory=History)
    created: list[tuple[str, str]] = field(default_factory=list)

    def counts(self, service: str) -> Counter[str]:
        return Counter(each.what for each in self.seen if each.service == service)

    def away_s(self, service: str, since: float, until: float) -> float:
        """Return the longest time without an answer of a service."""
        good = (ANSWERED, FALLBACK)
        done = [e.done for e in self.seen if e.service == service and e.what in good]
        times = sorted([since, *(moment for moment in done if since < moment < until), until])
        return max(b - a for a, b in pairwise(times))

    def first_answer(self, service: str, since: float) -> float:
        """Return when the first request was answered that was sent since; infinity if none was."""
        sent = [each for each in self.seen if each.service == service and each.sent > since]
        return min((each.done for each in sent if each.what == ANSWERED), default=math.inf)

    def slowest_s(self, service: str) -> float:
        return max(each.done - each.sent for each in self.seen if each.service == service)


class Stream(NamedTuple):
    """The requests to one service, and where their outcomes are recorded."""

    service: str
    url: str
    requests: Iterator[Request]
    record: Record


@asynccontextmanager
async def sending(streams: Iterable[Stream]) -> AsyncIterator[None]:
    """Send a request of each stream every 100 ms meanwhile, whether or not others were answered."""
    stop = asyncio.Event()
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(TIMEOUT_S)
        ) as session,
        asyncio.TaskGroup() as group,
    ):
        for stream in streams:
            group.create_task(_send_periodically(session, stream, stop))
        try:
            yield
        finally:
            stop.set()


async def _send_periodically(
    session: aiohttp.ClientSession, stream: Stream, stop: asyncio.Event
) -> None:
    async with asyncio.TaskGroup() as group:
        due = time.monotonic()
        while not stop.is_set():
            group.create_task(_send(session, stream, next(stream.requests)))
            due += PERIOD_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _send(session: aiohttp.ClientSession, stream: Stream, request: Request) -> None:
    sent, good = time.monotonic(), False
    try:
        async with session.request(
            request.method, stream.url + request.path, json=request.body, headers=request.headers
        ) as response:
            is_json = response.content_type.endswith("json")
            body = await (response.json(content_type=None) if is_json else response.text())
        good = response.status == request.status
        if not good:
            what = f"{response.status}" if is_json else f"{response.status} {response.content_type}"
        else:
            what = request.note(sent, time.monotonic(), body, response.headers)
    except aiohttp.ClientConnectorError:
        what = "connection refused"
    except aiohttp.ClientError:
        what = "connection broken"
    except TimeoutError:
        what = f"no answer in {TIMEOUT_S:.0f} s"
    done = time.monotonic()
    if not good:
        request.miss(sent, done)
    stream.record.seen.append(Seen(stream.service, sent, done, what))


def predictions(
    run: str, record: Record, access: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Request]:
    """Ask for steps, and record them for the checker.

    Args:
        access: the header with the token of the inference service, if it asks for one.
    """
    headers = {RUN_HEADER: run, **access}
    for junction in cycle(JUNCTIONS):
        key = Key(run, junction)

        def note(
            sent: float, done: float, body: Any, headers: Mapping[str, str], key: Key = key
        ) -> str:
            step = int(headers.get("X-Hidden-State-Step", 0))
            record.history.predictions.append(Prediction(key, sent, done, Outcome.ANSWERED, step))
            return ANSWERED

        def miss(sent: float, done: float, key: Key = key) -> None:
            record.history.predictions.append(Prediction(key, sent, done, Outcome.UNKNOWN))

        body = {"junction_id": junction, "obs_data": [0.5, 0.25]}
        yield Request("POST", "/predict_action", body, headers, note=note, miss=miss)


def decisions(run: str, token: str) -> Iterator[Request]:
    headers = {"Authorization": f"Bearer {token}", "X-Simulation-Run": run}

    def note(sent: float, done: float, body: Any, headers: Mapping[str, str]) -> str:
        return ANSWERED if body["status"] == "success" else FALLBACK

    for junction in cycle(JUNCTIONS):
        body = {"junctionId": junction, "observations": [1.0]}
        yield Request("POST", "/api/traffic/action", body, headers, note=note)


def density_forecasts() -> Iterator[Request]:
    while True:
        yield Request("POST", "/predict", {"data": [[4.0, 8.0, 15.0, 16.0, 23.0]] * 3})


def flow_forecasts() -> Iterator[Request]:
    start = int(time.time()) - HOUR_S
    sample = {"vehicle_count": 12, "avg_speed": 30.0, "occupancy": 0.05}
    history = [{"timestamp": start + MINUTE_S * minute, **sample} for minute in range(60)]
    for junction in cycle(JUNCTIONS):
        yield Request("POST", "/forecast", {"junction_id": junction, "historical_data": history})


def new_records(kind: str, first: int, record: Record) -> Iterator[Request]:
    """Create loans or cards under new numbers, and record those that are acknowledged."""
    for number in map(str, count(first)):

        def note(*answer: Any, number: str = number) -> str:
            record.created.append((kind, f"/api/{kind}?mobileNumber={number}"))
            return ANSWERED

        yield Request("POST", f"/api/{kind}?mobileNumber={number}", status=201, note=note)
