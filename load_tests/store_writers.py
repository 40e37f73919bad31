"""Several processes write to one store at once: throughput, and how long the unluckiest waits.

``STORE_URL=sqlite:////tmp/w.db python -m load_tests.store_writers --processes 3 --writers 16``
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import time
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.table import Table

from deployments.store import Document, open_store

TABLE = "writers"


async def write(url: str, writers: int, seconds: float) -> list[float]:
    """Return the latencies in ms of creates by so many concurrent writers of one process."""
    store = open_store(url)
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def work() -> None:
        while (started := time.perf_counter()) < end:
            key = secrets.token_hex(8)
            await store.create(TABLE, Document(key, b"x" * 250, f"index of {key}"))
            taken.append((time.perf_counter() - started) * 1000)

    await asyncio.gather(*(work() for _ in range(writers)))
    await store.close()
    return taken


def run_process(url: str, writers: int, seconds: float) -> list[float]:
    """Do the work of one process."""
    return asyncio.run(write(url, writers, seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--writers", type=int, default=16, help="of each process")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    url = os.environ["STORE_URL"]
    table = Table("process", "creates/s", "p50 ms", "p99 ms", "max ms", title="Writers at once")
    with ProcessPoolExecutor(options.processes) as pool:
        arguments = (url, options.writers, options.seconds)
        jobs = [pool.submit(run_process, *arguments) for _ in range(options.processes)]
        for number, job in enumerate(jobs, start=1):
            taken = sorted(job.result())
            figures = (taken[len(taken) // 2], taken[int(len(taken) * 0.99)], taken[-1])
            rate = len(taken) / options.seconds
            table.add_row(f"{number}", f"{rate:,.0f}", *(f"{figure:.1f}" for figure in figures))
    Console().print(table)


if __name__ == "__main__":
    main()
