"""Measures the ways to the Open Inference Protocol: HTTP over TCP or a Unix socket, and gRPC.

The clients are Triton's and our own for asyncio, in this process. Each waits for an answer before
it sends the next request, and its runs are the same in all rounds. gRPC passes `greenwave grpc`.

    make bench-transports ARGS="--rounds 3"
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import tritonclient.grpc as grpc_parts
import tritonclient.grpc.aio as triton_grpc
import tritonclient.http as http_parts
import tritonclient.http.aio as triton_http

from greenwave.client import AsyncClient
from load_tests.bench.harness import Benchmark, BenchmarkError, console, serve
from load_tests.bench.report import SPEED, Section, load_tables
from load_tests.bench.results import Results
from load_tests.harness.free_ports import free_port
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import running_system
from models.networks.shipped import SHIPPED

LOADS = {"1 row, 1 client": (1, 1), "1 row, 16 clients": (1, 16), "512 rows, 4 clients": (512, 4)}
"""Rows in a request, and clients, by name."""
START_S = 60.0

Answers = AsyncIterator[None]


def _measure(options: argparse.Namespace, results: Results) -> None:
    application = shipped_application("inference", called="inference", prefix="/", replicas=1)
    command = [sys.executable, "-m", "greenwave", "grpc", "--port", "{port}", "--url"]
    with (
        running_system(application, port_base=options.port_base, edge=True) as system,
        serve([*command, system.url], free_port()) as transcoder,
    ):
        unix_socket = system.instance.data_dir / "inference.sock"
        asyncio.run(_take_turns(system.url, transcoder.url, unix_socket, options, results))


async def _take_turns(
    http_url: str, grpc_url: str, unix_socket: Path, options: argparse.Namespace, results: Results
) -> None:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        grpc = await enter(triton_grpc.InferenceServerClient(urlsplit(grpc_url).netloc))
        await _until_live(grpc)
        clients = {
            "http": await enter(triton_http.InferenceServerClient(urlsplit(http_url).netloc)),
            "unary": grpc,
            "stream": grpc,
            "tcp": await enter(AsyncClient(http_url)),
            "unix": await enter(AsyncClient(http_url, unix_socket=unix_socket)),
        }
        for number in range(options.rounds + 1):  # the first one warms up
            console.print(f"round {number} of {options.rounds}")
            for load, (n_rows, n_clients) in LOADS.items():
                for part in options.only:
                    subject, ask = PARTS[part]
                    names = [f"client-{each}" for each in range(n_clients)]
                    asking = [ask(clients[part], n_rows, name) for name in names]
                    figures = await _drive(asking, n_rows, options.seconds)
                    if number:
                        results.add(subject, figures, load)
                    console.print(f"  {subject:<32} {load:<20} {figures['per_s']:8.0f}/s")


async def _infer_triton(parts: Any, client: Any, n_rows: int, name: str) -> Answers:
    inputs = _inputs(parts, n_rows, name)
    while True:
        await client.infer("policy", inputs, headers={"x-simulation-run": name})
        yield


async def _stream_grpc(client: Any, n_rows: int, name: str) -> Answers:
    inputs = _inputs(grpc_parts, n_rows, name)
    answered = asyncio.Semaphore(1)

    async def requests() -> AsyncIterator[dict[str, Any]]:
        while True:
            await answered.acquire()
            yield {"model_name": "policy", "inputs": inputs}

    async for _, error in client.stream_infer(requests(), headers={"x-simulation-run": name}):
        if error is not None:
            raise BenchmarkError(f"A message of a stream failed: {error}")
        yield
        answered.release()


async def _infer(client: AsyncClient, n_rows: int, name: str) -> Answers:
    observations, agents, runs = _columns(n_rows, name)
    while True:
        await client.inference.infer(observations, agents, runs=runs)
        yield


PARTS: Mapping[str, tuple[str, Callable[[Any, int, str], Answers]]] = {
    "http": ("Triton, HTTP", partial(_infer_triton, http_parts)),
    "unary": ("Triton, gRPC", partial(_infer_triton, grpc_parts)),
    "stream": ("Triton, gRPC streams", _stream_grpc),
    "tcp": ("greenwave.client", _infer),
    "unix": ("greenwave.client, Unix socket", _infer),
}
"""A client and its transport, and a function of client, rows and name that makes its requests."""


async def _drive(clients: Sequence[Answers], n_rows: int, seconds: float) -> dict[str, float]:
    """Return predictions per second, and the times of requests."""
    times: list[float] = []
    started = time.perf_counter()

    async def drive(client: Answers) -> None:
        while (began := time.perf_counter()) < started + seconds:
            await anext(client)
            times.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(drive(client))
    passed_s = time.perf_counter() - started
    for client in clients:
        await client.aclose()  # type: ignore[attr-defined]
    p50, p99 = (statistics.quantiles(times, n=100)[at] * 1000 for at in (49, 98))
    return {"per_s": len(times) * n_rows / passed_s, "p50_ms": p50, "p99_ms": p99}


def _columns(n_rows: int, name: str) -> tuple[Any, Any, list[str]]:
    """Return observations, agent indices and runs."""
    observations = np.full((n_rows, SHIPPED.max_obs), 0.5, np.float32)
    return observations, np.zeros(n_rows, np.int32), [f"{name}.{row}" for row in range(n_rows)]


def _inputs(parts: Any, n_rows: int, name: str) -> list[Any]:
    """Return the inputs of a request of Triton's client."""
    observations, agents, runs = _columns(n_rows, name)
    inputs = []
    for tensor, datatype, values in (
        ("observation", "FP32", observations),
        ("agent_index", "INT32", agents),
        ("run", "BYTES", np.array(runs, np.object_)),
    ):
        inputs.append(parts.InferInput(tensor, list(values.shape), datatype))
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
            page=SPEED.parent / "decisions" / "grpc.md",
        )
    ],
    rounds=3,
)
