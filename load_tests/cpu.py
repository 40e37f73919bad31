"""CPU time of the processes of an instance, by what they are, and what a request takes of it."""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import psutil

from load_tests.wrk import Sample, Target, run_wrk
from serve_app.launcher.instance import Instance
from serve_app.launcher.marks import read_command

KINDS = {
    "ray::ServeReplica": "replicas",
    "ray::HiddenStates": "state actor",
    "ray::ServeController": "Serve's controller",
    "haproxy": "HAProxy",
}
OTHERS = "the rest of Ray"
PARTS = ("HAProxy", "replicas", "state actor")
IDLE_S = 8.0


@dataclass(frozen=True)
class Cost(Sample):
    """One run of wrk and its CPU time per request, in microseconds."""

    cpu_us: float
    parts_us: Mapping[str, float]


def idle_of(instance: Instance) -> Mapping[str, float]:
    """Return the CPU seconds per second that each part takes while nobody asks anything."""
    before = cpu_seconds(instance)
    time.sleep(IDLE_S)
    after = cpu_seconds(instance)
    return {part: (after[part] - before[part]) / IDLE_S for part in PARTS}


def cost_of(
    instance: Instance, target: Target, connections: int, seconds: float, idle: Mapping[str, float]
) -> Cost:
    """Run wrk, and look before and after it what the parts have taken beyond their idle time."""
    before, started = cpu_seconds(instance), time.monotonic()
    sample = run_wrk(target, connections, seconds)
    after, took = cpu_seconds(instance), time.monotonic() - started
    requests = sample.requests_per_s * seconds
    parts = {
        part: (after[part] - before[part] - idle[part] * took) / requests * 1e6 for part in PARTS
    }
    return Cost(**asdict(sample), cpu_us=sum(parts.values()), parts_us=parts)


def cpu_seconds(instance: Instance) -> Mapping[str, float]:
    """Return the CPU seconds that each kind of process has taken since it started."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for process in instance.processes():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            seconds[_kind(process)] += times.user + times.system
    return seconds


def _kind(process: psutil.Process) -> str:
    program = read_command(process)[0].rsplit("/", 1)[-1]
    return next((kind for start, kind in KINDS.items() if program.startswith(start)), OTHERS)
