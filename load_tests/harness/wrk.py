"""Runs wrk against several targets in turn, round after round, and compares medians.

Machines are shared and noisy: targets alternate within a round so that noise meets all of them,
and what counts is the ratio of medians, not the absolute figure.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

HERE = Path(__file__).parent


class BenchmarkError(RuntimeError):
    """The measurement would be wrong or is not possible; the message says why."""


@dataclass(frozen=True)
class Target:
    """Something to load: a name for the table, a URL, the wrk script that makes the requests, and
    headers for all of them."""

    name: str
    url: str
    script: str
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sample:
    """One run of wrk. Latencies in milliseconds."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    requests: int


Samples = dict[tuple[str, int], list[Sample]]  # (target, connections)


def measure(
    targets: list[Target],
    connections: list[int],
    rounds: int,
    seconds: float,
    report: Callable[[str], None],
) -> Samples:
    """Load every target ``rounds`` times with each number of connections."""
    if not shutil.which("wrk"):
        raise BenchmarkError("wrk is needed for this benchmark; on Debian: apt-get install wrk")
    samples: Samples = {}
    for number in range(1, rounds + 1):
        for n in connections:
            for target in targets:
                sample = run_wrk(target, n, seconds)
                samples.setdefault((target.name, n), []).append(sample)
                report(
                    f"round {number}/{rounds}  {target.name:<28} c={n:<4}"
                    f" {sample.requests_per_s:7.0f} req/s  p50 {sample.p50_ms:.2f} ms"
                )
    return samples


def run_wrk(target: Target, connections: int, seconds: float) -> Sample:
    """Make one run of wrk; any failed request makes it void."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency"]
    command += [word for header in target.headers for word in ("-H", header)]
    command += ["-s", str(HERE / "scripts" / target.script), target.url]
    env = os.environ | {"LUA_PATH": f"{HERE}/scripts/?.lua"}
    output = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds + 60)
    lines = [line for line in output.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise BenchmarkError(f"wrk failed on {target.name}: {output.stderr or output.stdout}")
    result = json.loads(lines[0].removeprefix("RESULT "))
    if result["errors"] or not result["requests"]:
        raise BenchmarkError(f"{target.name}: {result['errors']} of {result['requests']} failed")
    return Sample(
        requests_per_s=result["requests"] / result["duration_us"] * 1e6,
        p50_ms=result["p50_us"] / 1000,
        p99_ms=result["p99_us"] / 1000,
        requests=result["requests"],
    )


def median(samples: Samples, name: str, connections: int, what: str) -> float:
    return float(statistics.median(getattr(each, what) for each in samples[name, connections]))


def wait_for(url: str, timeout_s: float = 60) -> None:
    """Return when something answers there."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            httpx.get(url, timeout=2)
            return
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise BenchmarkError(f"Nothing answers at {url}") from None
            time.sleep(0.1)
