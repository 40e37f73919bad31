"""What the benchmarks share: targets and loads, one measurement, rounds, and peers as processes.

The machine is shared and noisy. So targets alternate within a round, each benchmark measures a peer
in the same run, and what counts is the ratio of medians, not the absolute figure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import httpx
import psutil
from rich.console import Console

from load_tests.bench.report import Columns, Results
from load_tests.harness.processes import REST, cpu_seconds_by_kind, started_by, stop
from load_tests.harness.shipped import ROOT
from load_tests.harness.system import System, running_system
from load_tests.harness.wrk import run_wrk

START_TIMEOUT_S = 120.0
IDLE_S = 8.0

console = Console(highlight=False, soft_wrap=True)

Processes = Callable[[], list[psutil.Process]]


class BenchmarkError(RuntimeError):
    """A measurement is not possible or would be wrong; the message says why."""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark, and its report.

    Attributes:
        parts: what ``--only`` can select.
        measure: adds figures to the results.
        tables: of its report.
        notes: what follows them.
        name, about: those of its module, whose docstring is the help text.
    """

    parts: Sequence[str]
    measure: Callable[[argparse.Namespace, Results], None]
    tables: Sequence[Columns]
    notes: Callable[[Results], str] = lambda _: ""
    rounds: int = 5
    name: str = ""
    about: str | None = None


@dataclass(frozen=True)
class Load:
    """One run of wrk.

    Attributes:
        name: as it follows "at" in a heading.
    """

    name: str
    connections: int


ONE, SIXTEEN, SIXTY_FOUR = Load("1", 1), Load("16", 16), Load("64", 64)


@dataclass(frozen=True)
class Target:
    """A route to load.

    Attributes:
        requests: the kind of request, with its options (``requests.lua``).
        processes: finds all processes that serve it.
        predictions: in each request.
        idle: cores that each kind of these processes takes without load.
    """

    name: str
    url: str
    requests: tuple[str, ...]
    processes: Processes
    headers: tuple[str, ...] = ()
    predictions: int = 1
    idle: Mapping[str, float] = field(default_factory=dict)


def measure(target: Target, load: Load, seconds: float) -> dict[str, float]:
    """Load a target, and return rates, latencies, and the CPU time of each prediction."""
    cpu, started = cpu_seconds_by_kind(target.processes()), time.monotonic()
    sample = run_wrk(target.url, load.connections, seconds, target.requests, target.headers)
    took_s = time.monotonic() - started
    after = cpu_seconds_by_kind(target.processes())
    spent = {kind: max(0.0, after[kind] - cpu[kind]) for kind in after}
    per_prediction = 1000 / (sample.requests * target.predictions)
    costs = {
        kind: (seconds - target.idle.get(kind, 0.0) * took_s) * per_prediction
        for kind, seconds in spent.items()
    }
    return {
        "per_s": sample.requests_per_s * target.predictions,
        "p50_ms": sample.p50_ms,
        "p99_ms": sample.p99_ms,
        "cpu_ms": sum(costs.values()),
        **{f"cpu_ms {kind}": cost for kind, cost in costs.items() if kind != REST},
    }


def take_turns(
    targets: Sequence[Target], loads: Sequence[Load], options: argparse.Namespace, results: Results
) -> None:
    """Warm the targets up, and load each in turn, round after round."""
    for target in targets:
        measure(target, SIXTEEN, options.seconds)
    for _ in rounds(options):
        for load in loads:
            for target in targets:
                measure_into(results, target, load, options.seconds)


def rounds(options: argparse.Namespace) -> Iterator[int]:
    """Yield the number of each round, and print it."""
    for number in range(1, options.rounds + 1):
        console.print(f"round {number} of {options.rounds}")
        yield number


def measure_into(results: Results, target: Target, load: Load, seconds: float) -> None:
    """Measure, print the figures, and add them to the results."""
    figures = measure(target, load, seconds)
    results.add(target.name, figures, load.name)
    console.print(
        f"  {target.name:<32} at {load.name:<22} {figures['per_s']:7.0f}/s"
        f"  p50 {figures['p50_ms']:6.2f} ms  p99 {figures['p99_ms']:7.2f} ms"
        f"  CPU {figures['cpu_ms']:.2f} ms"
    )


def idle_cores(processes: Processes) -> dict[str, float]:
    """Return the cores that each kind of process takes while no client sends requests."""
    before, started = cpu_seconds_by_kind(processes()), time.monotonic()
    time.sleep(IDLE_S)
    after, took_s = cpu_seconds_by_kind(processes()), time.monotonic() - started
    return {kind: max(0.0, after[kind] - before[kind]) / took_s for kind in after}


def system_of(
    options: argparse.Namespace, *applications: dict[str, Any]
) -> contextlib.AbstractContextManager[System]:
    """Start a system with these applications, with an edge unless the options say otherwise."""
    return running_system(*applications, port_base=options.port_base, edge=options.edge)


@dataclass(frozen=True)
class Server:
    """A peer that runs: its URL, and its processes."""

    url: str
    processes: Processes


@contextlib.contextmanager
def serve(command: Sequence[str], port: int, **env: str) -> Iterator[Server]:
    """Run a server that stays in the foreground, and stop it with all that it has started.

    Args:
        command: may contain ``{port}``.
    """
    with tempfile.TemporaryFile() as log:
        leader = subprocess.Popen(
            [word.format(port=port) for word in command],
            env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def processes() -> list[psutil.Process]:
            if leader.poll() is not None:
                raise BenchmarkError(f"The server on port {port} ended: {_last_line(log)}")
            return started_by(leader.pid)

        try:
            yield Server(f"http://127.0.0.1:{port}", processes)
        finally:
            stop(started_by(leader.pid))


def wait_until_answered(server: Server, path: str, body: object) -> None:
    """Return when a POST request is answered with success.

    Raises:
        BenchmarkError: the server has ended, or does not answer in time.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.post(server.url + path, json=body, timeout=5).is_success:
                return
        server.processes()
        time.sleep(0.02)
    raise BenchmarkError(f"{server.url}{path} did not answer within {START_TIMEOUT_S:g} s.")


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"
