"""Requests of every service at a constant rate, and a record of their outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count, cycle, pairwise, repeat
from typing import NamedTuple

import httpx

from deployments.http.messages import RUN_HEADER
from load_tests.chaos.clients import ANSWERED, Client
from load_tests.chaos.history import History, Key
from models.networks.shipped import JUNCTIONS

TIMEOUT_S = 10.0
PERIOD_S = 0.1
FALLBACK = "fallback"

HOUR_S, MINUTE_S = 3600, 60


class Seen(NamedTuple):
    """One request as its client saw it; times in seconds."""

    service: str
    sent: float
    done: float
    what: str


Request = Callable[[Client], Awaitable[str]]
"""Sends one request, and returns its kind of outcome."""


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

    def missing(self, urls: Mapping[str, str]) -> list[str]:
        """Return the paths of acknowledged records that cannot be found.

        Args:
            urls: by service.
        """
        missing = []
        with httpx.Client(timeout=TIMEOUT_S) as client:
            for service, path in self.created:
                with contextlib.suppress(httpx.HTTPError):
                    if client.get(urls[service] + path).status_code == 200:
                        continue
                missing.append(path)
        return missing


class Stream(NamedTuple):
    """The requests to one service, with a token if it asks for one, and the record of both."""

    service: str
    url: str
    requests: Iterator[Request]
    record: Record
    token: str = ""


@contextlib.asynccontextmanager
async def sending(streams: Iterable[Stream]) -> AsyncIterator[None]:
    """Send a request of each stream every 100 ms meanwhile, whether or not others were answered."""
    stop = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for each in streams:
            client = Client(each.url, each.record.history, timeout_s=TIMEOUT_S, token=each.token)
            await stack.enter_async_context(client)
            group.create_task(_send_periodically(client, each, stop))
        try:
            yield
        finally:
            stop.set()


async def _send_periodically(client: Client, stream: Stream, stop: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        due = time.monotonic()
        while not stop.is_set():
            group.create_task(_send(client, stream, next(stream.requests)))
            due += PERIOD_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _send(client: Client, stream: Stream, request: Request) -> None:
    sent = time.monotonic()
    what = await request(client)
    stream.record.seen.append(Seen(stream.service, sent, time.monotonic(), what))


def predictions(run: str) -> Iterator[Request]:
    """Ask for steps, which the client records for the checker."""

    async def predict(client: Client, key: Key) -> str:
        return (await client.predict(key)).error.partition(":")[0] or ANSWERED

    for junction in cycle(JUNCTIONS):
        yield partial(predict, key=Key(run, junction))


def decisions(run: str) -> Iterator[Request]:
    async def decide(client: Client, junction: str) -> str:
        body = {"junctionId": junction, "observations": [1.0]}
        answer = await client.ask("/api/traffic/action", body, {RUN_HEADER: run})
        fell_back = answer.what == ANSWERED and json.loads(answer.body)["status"] != "success"
        return FALLBACK if fell_back else answer.what

    for junction in cycle(JUNCTIONS):
        yield partial(decide, junction=junction)


def density_forecasts() -> Iterator[Request]:
    return repeat(_asking("/predict", {"data": [[4.0, 8.0, 15.0, 16.0, 23.0]] * 3}))


def flow_forecasts() -> Iterator[Request]:
    start = int(time.time()) - HOUR_S
    sample = {"vehicle_count": 12, "avg_speed": 30.0, "occupancy": 0.05}
    history = [{"timestamp": start + MINUTE_S * minute, **sample} for minute in range(60)]
    for junction in cycle(JUNCTIONS):
        yield _asking("/forecast", {"junction_id": junction, "historical_data": history})


def _asking(path: str, body: object) -> Request:
    async def ask(client: Client) -> str:
        return (await client.ask(path, body)).what

    return ask


def new_records(kind: str, first: int, record: Record) -> Iterator[Request]:
    """Create loans or cards under new numbers, and record those that are acknowledged."""

    async def create(client: Client, path: str) -> str:
        answer = await client.ask(path, status=201)
        if answer.what == ANSWERED:
            record.created.append((kind, path))
        return answer.what

    for number in count(first):
        yield partial(create, path=f"/api/{kind}?mobileNumber={number}")
