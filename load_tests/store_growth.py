"""Does a store become slower as it grows? Latency of fetch and create at growing sizes.

Run on an empty store (the records stay in it):
``STORE_URL=sqlite:////tmp/growth.db python -m load_tests.store_growth --sizes 1000 1000000``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator

from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from deployments.customers import record_types
from deployments.customers.records.service import document_of, random_number
from deployments.store import Document, Store, open_store
from deployments.store.interface import batches

LOANS = record_types()["loans"]
FIRST_MOBILE = 1_000_000_000


def loan(position: int) -> Document:
    """Make the loan at a position: mobile numbers count up, loan numbers are random."""
    record = LOANS.new_record(str(FIRST_MOBILE + position), random_number(LOANS.number_length))
    return document_of(record)


async def fill(store: Store, start: int, end: int) -> None:
    """Create the loans of positions `start` to `end`."""
    documents: Iterator[Document] = map(loan, range(start, end))
    with tqdm(total=end, initial=start, desc="Filling", unit=" records") as progress:
        for batch in batches(documents):
            await store.create_many(LOANS.name, batch)
            progress.update(len(batch))


async def latencies_ms(call: Callable[[int], Awaitable[object]], times: int) -> list[float]:
    """Return the sorted latencies of calls made one after the other."""
    taken = []
    for n in range(times):
        started = time.perf_counter()
        await call(n)
        taken.append((time.perf_counter() - started) * 1000)
    return sorted(taken)


async def measure(store: Store, size: int, times: int) -> dict[str, list[float]]:
    """Fetch random ones of the loans, and create further ones, which are deleted again."""
    new = [loan(size + n) for n in range(times)]
    picks = [str(FIRST_MOBILE + secrets.randbelow(size)) for _ in range(times)]
    random.shuffle(new)

    async def fetch(n: int) -> None:
        assert await store.get_by_index(LOANS.name, picks[n]) is not None

    fetched = await latencies_ms(fetch, times)
    created = await latencies_ms(lambda n: store.create(LOANS.name, new[n]), times)
    await store.delete_many(LOANS.name, [document.key for document in new])
    return {"fetch": fetched, "create": created}


async def run(url: str, sizes: list[int], times: int) -> Table:
    """Return one row for each size and operation."""
    table = Table("records", "operation", "p50 ms", "p99 ms", "max ms", title="Store latency")
    store = open_store(url)
    filled = 0
    for size in sizes:
        await fill(store, filled, size)
        filled = size
        await measure(store, size, 100)  # warms caches
        for operation, taken in (await measure(store, size, times)).items():
            figures = (taken[len(taken) // 2], taken[int(len(taken) * 0.99)], taken[-1])
            table.add_row(f"{size:,}", operation, *(f"{figure:.3f}" for figure in figures))
    await store.close()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--times", type=int, default=2_000, help="calls measured per operation")
    options = parser.parse_args()
    table = asyncio.run(run(os.environ["STORE_URL"], sorted(options.sizes), options.times))
    Console().print(table)


if __name__ == "__main__":
    main()
