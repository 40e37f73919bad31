"""Measures the ways to the Open Inference Protocol: HTTP, and gRPC with `greenwave grpc`.

The clients are Triton's for asyncio, in this process. Each waits for an answer before it sends the
next request, and its runs are the same in all rounds.

    make bench-transports ARGS="--rounds 3"
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import tritonclient.grpc as grpc_parts
import tritonclient.grpc.aio as triton_grpc
import tritonclient.http as http_parts
import tritonclient.http.aio as triton_http

from load_tests.bench.harness import Benchmark, BenchmarkError, console, serve
from load_tests.bench.report import SPEED, Section, load_tables
from load_tests.bench.results import Results
from load_tests.harness.free_ports import free_port
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import running_system
from models.networks.shipped import SHIPPED

HTTP, UNARY, STREAM = "HTTP", "gRPC", "gRPC, streams"
PARTS = {"http": HTTP, "unary": UNARY, "stream": STREAM}
LOADS = {"1 row, 1 client": (1, 1), "1 row, 16 clients": (1, 16), "512 rows, 4 clients": (512, 4)}
"""Rows in a request, and clients, by name."""
START_S = 60.0

Ask = Callable[[], Awaitable[None]]


def _measure(options: argparse.Namespace, results: Results) -> None:
    application = shipped_application("inference", called="inference", prefix="/", replicas=1)
    command = [sys.executable, "-m", "greenwave", "grpc", "--port", "{port}", "--url"]
    with (
        running_system(application, port_base=options.port_base, edge=options.edge) as system,
        serve([*command, system.url], free_port()) as proxy,
    ):
        addresses = {"http": urlsplit(system.url).netloc, "grpc": urlsplit(proxy.url).netloc}
        asyncio.run(_take_turns(addresses, options, results))


async def _take_turns(
    addresses: dict[str, str], options: argparse.Namespace, results: Results
) -> None:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(triton_http.InferenceServerClient(addresses["http"]))
        grpc = await stack.enter_async_context(triton_grpc.InferenceServerClient(addresses["grpc"]))
        await _until_live(grpc)
        for number in range(options.rounds + 1):  # the first one warms up
            console.print(f"round {number} of {options.rounds}")
            for load, (n_rows, n_clients) in LOADS.items():
                for part in options.only:
                    clients = [
                        _client(part, http, grpc, n_rows, f"client-{each}")
                        for each in range(n_clients)
                    ]
                    figures = await _drive(clients, n_rows, options.seconds)
                    if number:
                        results.add(PARTS[part], figures, load)
                    console.print(f"  {PARTS[part]:<16} {load:<20} {figures['per_s']:8.0f}/s")


def _client(part: str, http: Any, grpc: Any, n_rows: int, name: str) -> AsyncIterator[None]:
    """Return the answers to one client's requests, of which each is asked for in turn."""
    inputs = _inputs(http_parts if part == "http" else grpc_parts, n_rows, name)
    headers = {"x-simulation-run": name}
    if part == "stream":
        return _streamed(grpc, inputs, headers)
    return _asked(http if part == "http" else grpc, inputs, headers)


async def _asked(client: Any, inputs: list[Any], headers: dict[str, str]) -> AsyncIterator[None]:
    while True:
        await client.infer("policy", inputs, headers=headers)
        yield


async def _streamed(client: Any, inputs: list[Any], headers: dict[str, str]) -> AsyncIterator[None]:
    answered = asyncio.Semaphore(1)

    async def requests() -> AsyncIterator[dict[str, Any]]:
        while True:
            await answered.acquire()
            yield {"model_name": "policy", "inputs": inputs}

    async for _, error in client.stream_infer(requests(), headers=headers):
        if error is not None:
            raise BenchmarkError(f"A message of a stream failed: {error}")
        yield
        answered.release()


async def _drive(
    clients: list[AsyncIterator[None]], n_rows: int, seconds: float
) -> dict[str, float]:
    """Return predictions per second, and the times of requests."""
    times: list[float] = []
    ends = time.perf_counter() + seconds

    async def drive(client: AsyncIterator[None]) -> None:
        while (began := time.perf_counter()) < ends:
            await anext(client)
            times.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(drive(client))
    for client in clients:
        await client.aclose()  # type: ignore[attr-defined]
    p50, p99 = (statistics.quantiles(times, n=100)[at] * 1000 for at in (49, 98))
    return {"per_s": len(times) * n_rows / seconds, "p50_ms": p50, "p99_ms": p99}


def _inputs(parts: Any, n_rows: int, name: str) -> list[Any]:
    columns = {
        "observation": np.full((n_rows, SHIPPED.max_obs), 0.5, np.float32),
        "agent_index": np.zeros(n_rows, np.int32),
        "run": np.array([f"{name}.{row}" for row in range(n_rows)], np.object_),
    }
    inputs = []
    for name, values in columns.items():
        datatype = {"f": "FP32", "i": "INT32"}.get(values.dtype.kind, "BYTES")
        inputs.append(parts.InferInput(name, list(values.shape), datatype))
        inputs[-1].set_data_from_numpy(values)
    return inputs


async def _until_live(client: Any) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            if await client.is_server_live():
                return
        except triton_grpc.InferenceServerException:
            await asyncio.sleep(0.1)
    raise BenchmarkError(f"`greenwave grpc` did not answer within {START_S:g} s.")


_RATES, _TIMES, _ = load_tables(list(LOADS))
BENCHMARK = Benchmark(
    name="transports",
    about=__doc__,
    parts=list(PARTS),
    measure=_measure,
    sections=[
        Section(
            "make bench-transports",
            [_RATES, _TIMES],
            page=SPEED.parent / "decisions" / "speed.md",
        )
    ],
    rounds=3,
)
