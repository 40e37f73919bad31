"""Measures clients beside more connections than the service carries, which ask without pause.

Twenty clients ask ten times a second each. Without effect, a request may be refused with 503
`overloaded` and Retry-After; any other failure ends the benchmark.

    make bench ARGS="overload --rounds 1"
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from load_tests.bench.harness import Benchmark, BenchmarkError, rounds, system_of
from load_tests.bench.report import Column, Results
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import wrk_command

CLIENTS = 20
PACED = ("predict", "runs=1000", "pause_ms=100", "log=1")
FLOOD = ("predict", "runs=200")
CONNECTIONS = (256, 1800)


def _measure(options: argparse.Namespace, results: Results) -> None:
    inference = shipped_application("inference")
    with system_of(options, inference) as system:
        url = f"{system.url}/predict_action"
        for connections in CONNECTIONS:
            for _ in rounds(options):
                figures = _measure_beside(url, connections, options.seconds)
                results.add(f"{connections:,} connections", figures)


def _measure_beside(url: str, connections: int, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="gwb-overload-") as folder:
        logs = [Path(folder, str(number)) for number in range(CLIENTS)]
        flood = subprocess.Popen(
            wrk_command(url, connections, seconds + 5, FLOOD), stdout=subprocess.DEVNULL
        )
        try:
            time.sleep(1)  # until all are connected
            clients = []
            for log in logs:
                with log.open("wb") as file:
                    command = wrk_command(url, 1, seconds, PACED)
                    clients.append(subprocess.Popen(command, stdout=file))
            for client in clients:
                client.wait(seconds + 30)
            if flood.poll() is not None:
                raise BenchmarkError("wrk ended, so nothing overloaded the service.")
        finally:
            flood.kill()
            flood.wait()
        return judge(line for log in logs for line in log.read_text().splitlines())


def judge(lines: Iterable[str]) -> dict[str, float]:
    """Return times of accepted requests, and the share of refused ones.

    Raises:
        BenchmarkError: a request failed in another way, or none was accepted.
    """
    took_ms, refused = [], 0
    for status, milliseconds, code, retry_after in _responses(lines):
        if status < 400 and status:
            took_ms.append(milliseconds)
        elif status == 503 and code == "overloaded" and retry_after.isdecimal():
            refused += 1
        else:
            what = f"status {status} {code}" if status else "a broken connection"
            raise BenchmarkError(f"A request ended with {what}, Retry-After {retry_after!r}.")
    if len(took_ms) < 2:
        raise BenchmarkError(f"No request was accepted, {refused} were refused.")
    cuts = statistics.quantiles(took_ms, n=100)
    share = refused / (refused + len(took_ms))
    return {"p50_ms": cuts[49], "p99_ms": cuts[98], "refused_percent": 100 * share}


def _responses(lines: Iterable[str]) -> Iterator[tuple[int, float, str, str]]:
    """Yield status, milliseconds, code and Retry-After of each response that wrk has logged."""
    for line in lines:
        if line.startswith("RESPONSE "):
            _, status, microseconds, code, retry_after = line.split(" ")
            yield int(status), int(microseconds) / 1000, code, retry_after


BENCHMARK = Benchmark(
    parts=["overload"],
    measure=_measure,
    tables=[
        [
            Column("accepted, p50 ms", "p50_ms", digits=1),
            Column("accepted, p99 ms", "p99_ms", digits=1),
            Column("refused, %", "refused_percent"),
        ]
    ],
    rounds=3,
)
