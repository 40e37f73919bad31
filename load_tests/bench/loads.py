"""What the contenders are loaded with, and how one load is measured."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil

from load_tests.bench.comparison.figures import Figures
from load_tests.bench.comparison.processes import busy_seconds, cpu_seconds
from load_tests.harness.wrk import Target, run_wrk


@dataclass(frozen=True)
class Running:
    """A contender that answers at this URL, and how to find all its processes."""

    url: str
    processes: Callable[[], list[psutil.Process]]


@dataclass(frozen=True)
class Load:
    """One run of wrk.

    Attributes:
        name: as it stands after "at" in a heading.
        predictions: in each request.
        busy: a program beside it keeps one core at work.
    """

    name: str
    connections: int
    script: str = "predict_action.lua"
    path: str = "/predict_action"
    predictions: int = 1
    busy: bool = False


WARM_UP = Load("warm-up", 16)
ONE, SIXTEEN, SIXTY_FOUR = PLAIN = (
    Load("1", 1),
    Load("16", 16),
    Load("64", 64),
)
BUSY = Load("16 beside a busy core", 16, busy=True)
# The same 200 runs of five junctions each; items of one request belong to one run, so a hundred of
# them are twenty steps of its five junctions.
SINGLE, FIVE, HUNDRED = AT_ONCE = (
    Load("one a request", 16, "predict_for_runs.lua"),
    Load("5 a request", 16, "predict_runs_at_once.lua", "/predict_actions", 5),
    Load("100 a request", 16, "predict_hundred_at_once.lua", "/predict_actions", 100),
)


def measure(running: Running, load: Load, seconds: float) -> Figures:
    """Load a contender, and look before and after at what its processes and all others took."""
    target = Target(load.name, running.url + load.path, load.script)
    contender, mine, busy = cpu_seconds(running.processes()), _mine(), busy_seconds()
    began = time.monotonic()
    with busy_core() if load.busy else contextlib.nullcontext():
        sample = run_wrk(target, load.connections, seconds)
    took_s = time.monotonic() - began
    busy, mine = busy_seconds() - busy, _mine() - mine
    contender = cpu_seconds(running.processes()) - contender
    return Figures(
        per_s=sample.requests_per_s * load.predictions,
        p50_ms=sample.p50_ms,
        p99_ms=sample.p99_ms,
        cpu_s=contender / (sample.requests * load.predictions) * 1000,
        other_cores=max(0.0, busy - mine - contender) / took_s,
    )


def _mine() -> float:
    """Return the CPU time of this program and of what it has run, such as wrk."""
    return cpu_seconds([psutil.Process()])


@contextlib.contextmanager
def busy_core() -> Iterator[None]:
    """Keep the last core at work with an endless loop."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(loop.pid, {max(os.sched_getaffinity(0))})
        yield
    finally:
        loop.kill()
        loop.wait()
