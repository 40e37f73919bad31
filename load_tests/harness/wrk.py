"""Load from wrk: one run of it, and what it measured."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("requests.lua")


class WrkError(RuntimeError):
    """No figure, because wrk is missing or a request failed; the message says which."""


@dataclass(frozen=True)
class Sample:
    """The result of one run."""

    requests: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float


def wrk_command(
    url: str, connections: int, seconds: float, requests: Sequence[str], headers: Sequence[str] = ()
) -> list[str]:
    """Return wrk's command line.

    Args:
        requests: the arguments of ``requests.lua``: the kind of request, and its options.
        headers: lines such as ``Authorization: Bearer TOKEN``.

    Raises:
        WrkError: wrk is not installed.
    """
    wrk = shutil.which("wrk")
    if wrk is None:
        raise WrkError("wrk is not installed; on Debian, run: apt-get install wrk")
    command = [wrk, "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", str(SCRIPT)]
    command += [word for header in headers for word in ("-H", header)]
    return [*command, url, "--", *requests]


def run_wrk(
    url: str, connections: int, seconds: float, requests: Sequence[str], headers: Sequence[str]
) -> Sample:
    """Run wrk once.

    Raises:
        WrkError: wrk is not installed, or a request failed.
    """
    command = wrk_command(url, connections, seconds, requests, headers)
    output = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    lines = [line for line in output.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise WrkError(f"wrk failed at {url}: {output.stderr or output.stdout}")
    result = json.loads(lines[0].removeprefix("RESULT "))
    if result["errors"] or not result["requests"]:
        raise WrkError(f"{result['errors']} of {result['requests']} requests to {url} failed")
    return Sample(
        requests=result["requests"],
        requests_per_s=result["requests"] / result["duration_us"] * 1e6,
        p50_ms=result["p50_us"] / 1000,
        p99_ms=result["p99_us"] / 1000,
    )
