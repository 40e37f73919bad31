"""CPU time of the processes of an instance, by what they are, and what a request takes of it."""

from __future__ import annotations

import collections
import contextlib
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import psutil

from load_tests.bench.harness import console
from load_tests.harness.wrk import Sample, Target, run_wrk
from serve_app.processes.instance import Instance
from serve_app.processes.process_tags import read_command

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


def whole_cost_of(
    instance: Instance,
    target: Target,
    connections: int,
    seconds: float,
    kinds: Mapping[str, str] = KINDS,
) -> Cost:
    """Run wrk, and return what a request took of all processes, whatever else they did meanwhile.

    On a machine that others use too, this is steadier than rates are.
    """
    before = cpu_seconds(instance, kinds)
    sample = run_wrk(target, connections, seconds)
    after = cpu_seconds(instance, kinds)
    requests = sample.requests_per_s * seconds
    parts = {part: (taken - before[part]) / requests * 1e6 for part, taken in after.items()}
    return Cost(**asdict(sample), cpu_us=sum(parts.values()), parts_us=parts)


def cpu_seconds(
    instance: Instance, kinds: Mapping[str, str] = KINDS
) -> collections.defaultdict[str, float]:
    """Return the CPU seconds that each kind of process has taken since it started.

    Args:
        kinds: by the start of a process' title.
    """
    seconds: collections.defaultdict[str, float] = collections.defaultdict(float)
    for process in instance.processes():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            seconds[_kind(process, kinds)] += times.user + times.system
    return seconds


def _kind(process: psutil.Process, kinds: Mapping[str, str]) -> str:
    program = read_command(process)[0].rsplit("/", 1)[-1]
    return next((kind for start, kind in kinds.items() if program.startswith(start)), OTHERS)


def print_costs(samples: Mapping[tuple[str, int], list[Cost]]) -> None:
    """Print what a request takes in all, and of each part: medians, in microseconds."""
    for (name, n), costs in samples.items():
        parts = "  ".join(
            f"{part} {statistics.median(cost.parts_us.get(part, 0) for cost in costs):.0f}"
            for part in costs[-1].parts_us
        )
        whole = statistics.median(cost.cpu_us for cost in costs)
        console.print(f"{name} at {n}: {whole:.0f} µs of CPU time a request:  {parts}")
