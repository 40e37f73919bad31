"""Measures fetch and create of loans against bare FastAPI and uvicorn on a store of the same kind.

On SQLite and on Redis, each with every write synced to disk; product and peer have a database each.

    make bench-records ARGS="--rounds 7 --seconds 5"
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import httpx

from load_tests.bench import harness
from load_tests.bench.harness import Bar, console
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import BenchmarkError, Samples, Target, measure

STORES = ["SQLite", "Redis"]
OPERATIONS = {
    "fetch": 0.9,
    "create": 0.8,
}  # and what share of the peer's requests per second is wanted
FIRST_MOBILE, N_LOANS = 5_000_000_000, 1_000  # as in scripts/fetch_loan.lua
PEER = "load_tests.peers.records_fastapi:create_app"


def name_of(operation: str, store: str, who: str) -> str:
    return f"{operation} on {store}: {who}"


BARS = [
    Bar(
        name_of(operation, store, "greenwave"),
        "requests_per_s",
        16,
        name_of(operation, store, "FastAPI"),
        ">=",
        wanted,
    )
    for operation, wanted in OPERATIONS.items()
    for store in STORES
]


def main() -> int:
    return harness.run(__doc__, 23500, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    samples: Samples = {}
    with tempfile.TemporaryDirectory(prefix="gwb-records-") as folder:
        ours, theirs = (f"sqlite:///{folder}/{name}.db" for name in ("ours", "theirs"))
        samples |= _measure_store(options, "SQLite", ours, theirs)
        server = RedisServer(Path(folder) / "redis").start()
        try:
            redis = server.url.removesuffix("/0")
            samples |= _measure_store(options, "Redis", f"{redis}/0", f"{redis}/1")
        finally:
            server.stop()
    return samples


def _measure_store(options: argparse.Namespace, store: str, ours: str, theirs: str) -> Samples:
    """Load the product on the store ``ours`` and the peer on ``theirs``."""
    loans = shipped_application("loans", env={"STORE_URL": ours})
    with (
        harness.serving(options.port_base, [loans]) as (instance, _),
        harness.uvicorn(PEER, options.port_base + 60, STORE_URL=theirs) as peer,
    ):
        places = {"greenwave": instance.base_url, "FastAPI": peer}
        targets = [
            Target(name_of(operation, store, who), f"{url}/api/loans", f"{operation}_loan.lua")
            for operation in OPERATIONS
            for who, url in places.items()
        ]
        for url in places.values():
            _fill(f"{url}/api/loans")
        return measure(targets, harness.CONNECTIONS, options.rounds, options.seconds, console.print)


def _fill(url: str) -> None:
    """Create the loans that are fetched."""
    with httpx.Client(timeout=10) as client:
        for number in range(FIRST_MOBILE, FIRST_MOBILE + N_LOANS):
            answer = client.post(url, params={"mobileNumber": str(number)})
            if answer.status_code != 201:
                raise BenchmarkError(f"{url} answered {answer.status_code}: {answer.text}")


if __name__ == "__main__":
    sys.exit(main())
