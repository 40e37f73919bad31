"""The part of ``make bench`` that compares calls of greenwave.client with bare HTTP libraries.

All call a server in a process of its own that does almost nothing. Rounds of all take turns.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import aiohttp
import httpx

from greenwave.client import AsyncClient, Client
from load_tests.bench.report import Column, Section
from load_tests.bench.results import Results
from load_tests.harness.shipped import ROOT

PART = "client"
CALLS = 400
AT_ONCE = 64
JUNCTION, OBSERVATION = "300839359", [1.0, 0.0, 1.0, 0.4, 0.2, 0.0, 0.0, 0.1]
BODY = json.dumps({"junction_id": JUNCTION, "obs_data": OBSERVATION}).encode()
HEADERS = {"content-type": "application/json", "x-simulation-run": "a", "idempotency-key": "b"}
ANSWER = json.dumps({"junction_id": JUNCTION, "action": 0, "confidence": 0.979}).encode()
HEAD = (
    f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(ANSWER)}\r\n\r\n"
).encode()

SECTION = Section(
    "make bench, client",
    [[Column("µs a call", "call_us"), Column("µs a call, 64 at once", "call_us", "at once")]],
    part=PART,
    page=ROOT / "docs" / "client.md",
)

Measure = Callable[[], Awaitable[float]]


def measure(rounds: int, results: Results) -> None:
    """Add the microseconds of a call by each client."""
    with _answering_server() as url:
        asyncio.run(_measure(url, rounds, results))


async def _measure(url: str, rounds: int, results: Results) -> None:
    route = f"{url}/predict_action"
    with Client(url) as client, httpx.Client() as bare:
        async with (
            AsyncClient(url) as async_client,
            aiohttp.ClientSession() as session,
            httpx.AsyncClient() as async_bare,
        ):
            run, async_run = client.inference.run("a"), async_client.inference.run("a")

            async def by_async_client() -> None:
                await async_run.predict(JUNCTION, OBSERVATION)

            async def by_aiohttp() -> None:
                async with session.post(route, data=BODY, headers=HEADERS) as answer:
                    json.loads(await answer.read())

            async def by_httpx() -> None:
                (await async_bare.post(route, content=BODY, headers=HEADERS)).json()

            kinds: dict[tuple[str, str], Measure] = {
                ("Client", ""): _blocking(lambda: run.predict(JUNCTION, OBSERVATION)),
                ("bare httpx", ""): _blocking(
                    lambda: bare.post(route, content=BODY, headers=HEADERS).json()
                ),
                ("AsyncClient", ""): _concurrent(by_async_client, 1),
                ("bare aiohttp", ""): _concurrent(by_aiohttp, 1),
                ("bare httpx in an event loop", ""): _concurrent(by_httpx, 1),
                ("AsyncClient", "at once"): _concurrent(by_async_client, AT_ONCE),
                ("bare aiohttp", "at once"): _concurrent(by_aiohttp, AT_ONCE),
            }
            for kind in kinds.values():
                await kind()  # opens connections
            for _ in range(rounds):
                for (name, load), kind in kinds.items():
                    results.add(name, {"call_us": await kind()}, load)


def _blocking(call: Callable[[], object]) -> Measure:
    """Return what measures the median call in microseconds."""

    async def measured() -> float:
        times = []
        for _ in range(CALLS):
            started = perf_counter()
            call()
            times.append(perf_counter() - started)
        return statistics.median(times) * 1e6

    return measured


def _concurrent(call: Callable[[], Awaitable[None]], at_once: int) -> Measure:
    """Return what measures the mean microseconds of a call while so many are under way."""

    async def measured() -> float:
        turns = iter(range(CALLS))

        async def worker() -> None:
            for _ in turns:
                await call()

        started = perf_counter()
        await asyncio.gather(*(worker() for _ in range(at_once)))
        return (perf_counter() - started) / CALLS * 1e6

    return measured


@contextmanager
def _answering_server() -> Iterator[str]:
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    process = multiprocessing.Process(target=_serve, args=[ports], daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ports.get(timeout=10)}"
    finally:
        process.kill()
        process.join()


def _serve(ports: multiprocessing.Queue[int]) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


class _Answering(asyncio.Protocol):
    """Answers each request, whose body ends with a brace, with one prediction."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}"):
            self._transport.write(HEAD + ANSWER)
