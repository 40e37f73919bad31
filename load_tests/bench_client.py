"""What a call by the client costs, against bare HTTP libraries, on a server that costs next to
nothing. Rounds of all of them take turns, so that a busy hour is one for all.

    make bench-client
    make bench-client ARGS="--rounds 5 --calls 200"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import aiohttp
import httpx
from rich.table import Table

from greenwave.client import AsyncClient, Client
from load_tests.bench.harness import console

JUNCTION, OBSERVATION = "300839359", [1.0, 0.0, 1.0, 0.4, 0.2, 0.0, 0.0, 0.1]
BODY = json.dumps({"junction_id": JUNCTION, "obs_data": OBSERVATION}).encode()
HEADERS = {"content-type": "application/json", "x-simulation-run": "a", "idempotency-key": "b"}
ANSWER = json.dumps({"junction_id": JUNCTION, "action": 0, "confidence": 0.979}).encode()
HEAD = (
    f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(ANSWER)}\r\n\r\n"
).encode()
AT_ONCE = 64

Calls = dict[str, Callable[[int], Awaitable[float]]]


class Peer(asyncio.Protocol):
    """Answers whatever arrives in one piece or two, a head and a body, with one prediction."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}"):  # the body is there
            self._transport.write(HEAD + ANSWER)


def main() -> int:
    """Measure, and print medians in microseconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=400, help="of each kind in each round")
    options = parser.parse_args()
    with served() as url:
        samples = asyncio.run(measure(url, options.rounds, options.calls))
    table = Table("a call by", "µs", title=f"medians of {options.rounds} rounds")
    for name, microseconds in samples.items():
        table.add_row(name, f"{statistics.median(microseconds):.0f}")
    console.print(table)
    return 0


@contextmanager
def served() -> Iterator[str]:
    """Serve predictions in a process of their own, and yield the URL."""
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    process = multiprocessing.Process(target=serve, args=[ports], daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ports.get(timeout=10)}"
    finally:
        process.kill()
        process.join()


def serve(ports: multiprocessing.Queue[int]) -> None:
    """Serve until killed."""

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())


async def measure(url: str, rounds: int, calls: int) -> dict[str, list[float]]:
    """Return the microseconds of a call in each round, by what makes it."""
    route = f"{url}/predict_action"
    with Client(url) as client, httpx.Client() as bare:
        async with (
            AsyncClient(url) as awaited,
            aiohttp.ClientSession() as session,
            httpx.AsyncClient() as slow,
        ):
            run, awaited_run = client.inference.run("a"), awaited.inference.run("a")

            async def by_aiohttp() -> None:
                async with session.post(route, data=BODY, headers=HEADERS) as answer:
                    json.loads(await answer.read())

            async def by_httpx() -> None:
                (await slow.post(route, content=BODY, headers=HEADERS)).json()

            async def by_async_client() -> None:
                await awaited_run.predict(JUNCTION, OBSERVATION)

            kinds: Calls = {
                "Client": blocking(lambda: run.predict(JUNCTION, OBSERVATION)),
                "bare httpx": blocking(
                    lambda: bare.post(route, content=BODY, headers=HEADERS).json()
                ),
                "AsyncClient": awaiting(by_async_client, 1),
                "bare aiohttp": awaiting(by_aiohttp, 1),
                "bare httpx, asynchronous": awaiting(by_httpx, 1),
                f"AsyncClient, {AT_ONCE} at once": awaiting(by_async_client, AT_ONCE),
                f"bare aiohttp, {AT_ONCE} at once": awaiting(by_aiohttp, AT_ONCE),
            }
            samples: dict[str, list[float]] = {name: [] for name in kinds}
            for _ in range(rounds + 1):
                for name, kind in kinds.items():
                    samples[name].append(await kind(calls))
    return {name: each[1:] for name, each in samples.items()}  # the first one opens connections


def blocking(call: Callable[[], object]) -> Callable[[int], Awaitable[float]]:
    """Return what measures the median call in microseconds."""

    async def measured(calls: int) -> float:
        times = []
        for _ in range(calls):
            started = perf_counter()
            call()
            times.append(perf_counter() - started)
        return statistics.median(times) * 1e6

    return measured


def awaiting(
    call: Callable[[], Awaitable[None]], at_once: int
) -> Callable[[int], Awaitable[float]]:
    """Return what measures the mean microseconds of a call when so many are made at once."""

    async def measured(calls: int) -> float:
        turns = iter(range(calls))

        async def worker() -> None:
            for _ in turns:
                await call()

        started = perf_counter()
        await asyncio.gather(*(worker() for _ in range(at_once)))
        return (perf_counter() - started) / calls * 1e6

    return measured


if __name__ == "__main__":
    sys.exit(main())
