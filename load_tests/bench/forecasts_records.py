"""Measures forecasts and loans beside bare FastAPI and uvicorn.

The peer of a forecast runs its network in eager PyTorch, as one would first write it; a second one
runs Greenwave's own model. The peer of the loans uses a store of the same kind, SQLite or Redis,
with every write synced to disk.

    make bench ARGS="forecasts-records --only density,flow --rounds 7"
    make bench ARGS="forecasts-records --only redis"
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx

from load_tests.bench.harness import (
    ONE,
    SIXTEEN,
    Benchmark,
    BenchmarkError,
    Target,
    serve,
    system_of,
    take_turns,
    uvicorn,
    wait_until_answered,
)
from load_tests.bench.report import Results, load_tables
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import shipped_application

LOADS = (ONE, SIXTEEN)
GREENWAVE, FASTAPI = "Greenwave", "FastAPI"
TORCH, SAME = "FastAPI, PyTorch", "FastAPI, our model"
FORECASTS = {"density": "/predict", "flow": "/forecast"}
"""The route of each forecast, below its name in the product."""
STORES = {"sqlite": "SQLite", "redis": "Redis"}
OPERATIONS = ("fetch", "create")
FIRST_MOBILE, N_LOANS = 5_000_000_000, 1_000  # those that requests.lua fetches


def _name(what: str, server: str) -> str:
    return f"{what}: {server}"


def _measure(options: argparse.Namespace, results: Results) -> None:
    if forecasts := [each for each in FORECASTS if each in options.only]:
        _measure_forecasts(forecasts, options, results)
    with tempfile.TemporaryDirectory(prefix="gwb-records-") as folder:
        if "sqlite" in options.only:
            urls = [f"sqlite:///{folder}/{name}.db" for name in ("ours", "theirs")]
            _measure_loans("SQLite", urls, options, results)
        if "redis" in options.only:
            server = RedisServer(Path(folder) / "redis").start()
            try:
                urls = [f"{server.url.removesuffix('/0')}/{number}" for number in (0, 1)]
                _measure_loans("Redis", urls, options, results)
            finally:
                server.stop()


def _measure_forecasts(names: list[str], options: argparse.Namespace, results: Results) -> None:
    base, peer = options.port_base, uvicorn("fastapi_servers:forecasts_app")
    with (
        system_of(options, *map(shipped_application, names)) as system,
        serve(peer, base + 60, PEER_STEP="torch") as eager,
        serve(peer, base + 61, PEER_STEP="greenwave") as same,
    ):
        targets = []
        for name in names:
            ours = system.url_of(f"/{name}") + FORECASTS[name]
            processes = system.instance.processes
            targets.append(Target(_name(name, GREENWAVE), ours, (name,), processes))
            for what, server in ((TORCH, eager), (SAME, same)):
                url = server.url + FORECASTS[name]
                targets.append(Target(_name(name, what), url, (name,), server.processes))
        for server in (eager, same):
            wait_until_answered(server, "/predict", {"data": [[1.0] * 5] * 3})
        take_turns(targets, LOADS, options, results)


def _measure_loans(
    store: str, urls: Sequence[str], options: argparse.Namespace, results: Results
) -> None:
    """Load Greenwave on the first store and the peer on the second."""
    ours, theirs = urls
    loans, peer_port = shipped_application("loans", env={"STORE_URL": ours}), options.port_base + 60
    with (
        system_of(options, loans) as system,
        serve(uvicorn("fastapi_servers:loans_app"), peer_port, STORE_URL=theirs) as peer,
    ):
        wait_until_answered(peer, "/api/loans?mobileNumber=1000000000", None)
        servers = {
            GREENWAVE: (system.url_of("/api/loans"), system.instance.processes),
            FASTAPI: (f"{peer.url}/api/loans", peer.processes),
        }
        for url, _ in servers.values():
            _create_loans(url)
        targets = [
            Target(_name(f"{what}, {store}", name), url, (f"{what}_loan",), processes)
            for what in OPERATIONS
            for name, (url, processes) in servers.items()
        ]
        take_turns(targets, LOADS, options, results)


def _create_loans(url: str) -> None:
    with httpx.Client(timeout=10) as client:
        for number in range(FIRST_MOBILE, FIRST_MOBILE + N_LOANS):
            answer = client.post(url, params={"mobileNumber": str(number)})
            if answer.status_code != 201:
                raise BenchmarkError(f"{url} answered {answer.status_code}: {answer.text}")


BENCHMARK = Benchmark(
    name="forecasts-records",
    about=__doc__,
    parts=[*FORECASTS, *STORES],
    measure=_measure,
    tables=load_tables([load.name for load in LOADS]),
)
