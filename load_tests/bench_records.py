"""Measures fetch and create of loans against bare FastAPI and uvicorn on a store of the same kind.

On SQLite and on Redis, each with every write synced to disk; product and peer have a database each.

    make bench-records ARGS="--rounds 7 --seconds 5"
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from load_tests import harness
from load_tests.harness import Bar, console
from load_tests.wrk import BenchmarkError, Samples, Target, measure
from tests.redis_server import RedisServer
from tests.shipped import shipped_application

STORES = ["SQLite", "Redis"]
OPERATIONS = ["fetch", "create"]
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
        0.6,
    )
    for operation in OPERATIONS
    for store in STORES
]


def main() -> int:
    return harness.run(__doc__, 23500, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    base = options.port_base
    with (
        _stores() as (ours, theirs),
        harness.serving(base, [_loans(*each) for each in ours.items()]) as (instance, _),
        harness.uvicorn(PEER, base + 60, STORE_URL=theirs["SQLite"]) as sqlite_peer,
        harness.uvicorn(PEER, base + 61, STORE_URL=theirs["Redis"]) as redis_peer,
    ):
        places = [
            ("SQLite", "greenwave", f"{instance.base_url}/SQLite/loans"),
            ("SQLite", "FastAPI", f"{sqlite_peer}/api/loans"),
            ("Redis", "greenwave", f"{instance.base_url}/Redis/loans"),
            ("Redis", "FastAPI", f"{redis_peer}/api/loans"),
        ]
        for _, _, url in places:
            _fill(url)
        targets = [
            Target(name_of(operation, store, who), url, f"{operation}_loan.lua")
            for operation in OPERATIONS
            for store, who, url in places
        ]
        return measure(targets, harness.CONNECTIONS, options.rounds, options.seconds, console.print)


def _loans(store: str, url: str) -> dict[str, Any]:
    """The loans application on a store of its own."""
    return shipped_application(
        "loans", called=f"loans-{store}", prefix=f"/{store}/loans", env={"STORE_URL": url}
    )


@contextlib.contextmanager
def _stores() -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """URLs by kind of store: the product's and the peer's."""
    with tempfile.TemporaryDirectory(prefix="gwb-records-") as folder:
        server = RedisServer(Path(folder) / "redis").start()
        try:
            redis = server.url.removesuffix("/0")
            yield (
                {"SQLite": f"sqlite:///{folder}/ours.db", "Redis": f"{redis}/0"},
                {"SQLite": f"sqlite:///{folder}/theirs.db", "Redis": f"{redis}/1"},
            )
        finally:
            server.stop()


def _fill(url: str) -> None:
    """Create the loans that are fetched."""
    with httpx.Client(timeout=10) as client:
        for number in range(FIRST_MOBILE, FIRST_MOBILE + N_LOANS):
            answer = client.post(url, params={"mobileNumber": str(number)})
            if answer.status_code != 201:
                raise BenchmarkError(f"{url} answered {answer.status_code}: {answer.text}")


if __name__ == "__main__":
    sys.exit(main())
