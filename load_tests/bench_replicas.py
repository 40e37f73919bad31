"""Measures what a request costs with one inference replica and with three, and what moves.

The same load on each in turn: 200 runs of five junctions in a random order. Beside the shipped
routing by run: three replicas that take turns, as Serve does by itself; and three applications of
one replica that know nothing of each other, which shows what it costs that three processes share
the machine. CPU time is that of HAProxy, the replicas and the state actors, less what they take
idle; from it, and from the part of each of them, follow the cores that a load needs.

    make bench-replicas ARGS="--rounds 5 --seconds 5"
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter

import httpx
from rich.table import Table

from load_tests.bench import harness
from load_tests.bench.cpu import PARTS, Cost, cost_of, idle_of
from load_tests.bench.harness import Bar, console
from load_tests.harness.exporter import moves_in
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import Samples, Target, run_wrk
from serve_app.processes.instance import Instance

ONE, THREE, TURNS = "one replica", "three, routed by run", "three, in turn"
APART = "three applications"
PLACES = {ONE: ("inference", 1), THREE: ("inference-three", 3), TURNS: ("turns", 3)}
PIECES = [f"apart-{number}" for number in (1, 2, 3)]  # known to predict_apart.lua, too
BARS = [
    Bar(THREE, figure, n, peer, "<=", 1.1)
    for peer in (ONE, APART)
    for figure in ("p50_ms", "cpu_us")
    for n in harness.CONNECTIONS
]
MOVES_BAR = 1.0  # per 1,000 requests
CORES = (4, 16, 64)
SPARE = 0.7  # of the processors' time; the rest is for Ray, the edge, and bursts
EXPORT_S = 15.0  # Ray's processes report their counts every 10 s


def main() -> int:
    return harness.run(__doc__, 23500, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    applications = [
        shipped_application("inference", called=name, prefix=f"/{name}", replicas=replicas)
        for name, replicas in [*PLACES.values(), *((name, 1) for name in PIECES)]
    ]
    samples: Samples = {}
    with harness.serving(options.port_base, applications) as (instance, _):
        targets = _targets(instance)
        for target in targets:  # every state gets its owner
            run_wrk(target, 16, options.seconds)
        idle = idle_of(instance)
        before = _moves(instance)
        for number in range(1, options.rounds + 1):
            for n in harness.CONNECTIONS:
                for target in targets:
                    cost = cost_of(instance, target, n, options.seconds, idle)
                    samples.setdefault((target.name, n), []).append(cost)
                    console.print(
                        f"round {number}/{options.rounds}  {target.name:<22} c={n:<3}"
                        f" {cost.requests_per_s:6.0f} req/s  p50 {cost.p50_ms:.2f} ms"
                        f"  {cost.cpu_us:.0f} us of CPU"
                        f" ({', '.join(f'{p} {us:.0f}' for p, us in cost.parts_us.items())})"
                    )
        _print_moves(samples, before, _moves(instance), options.seconds)
    _print_capacity(samples)
    return samples


def _targets(instance: Instance) -> list[Target]:
    urls = {name: f"{instance.base_url}/{app}/predict_action" for name, (app, _) in PLACES.items()}
    return [
        *(Target(name, url, "predict_for_runs.lua") for name, url in urls.items()),
        Target(APART, instance.base_url, "predict_apart.lua"),
    ]


def _moves(instance: Instance) -> Counter[str]:
    time.sleep(EXPORT_S)
    url = f"http://127.0.0.1:{instance.ports.metrics}/metrics"
    return moves_in(httpx.get(url, timeout=10).raise_for_status().text)


def _print_moves(
    samples: Samples, before: Counter[str], after: Counter[str], seconds: float
) -> None:
    for name, (app, _) in PLACES.items():
        requests = sum(
            each.requests_per_s * seconds
            for (target, _), all_ in samples.items()
            for each in all_
            if target == name
        )
        moves = (after[app] - before[app]) / requests * 1000
        bar = "" if name == TURNS else f" (bar: under {MOVES_BAR:g})"
        console.print(f"{name}: {moves:.2f} moves per 1,000 requests{bar}")


def _print_capacity(samples: Samples) -> None:
    """Compute from the CPU time of three replicas at 16 connections what more cores carry."""
    costs = [each for each in samples[THREE, 16] if isinstance(each, Cost)]
    part = {name: statistics.median(each.parts_us[name] for each in costs) for name in PARTS}
    total = sum(part.values())
    console.print("CPU per request: " + ", ".join(f"{k} {v:.0f} us" for k, v in part.items()))
    table = Table("cores", "requests/s", *(f"{p}, cores" for p in PARTS), title="computed")
    for cores in CORES:
        rate = cores * SPARE / (total * 1e-6)
        table.add_row(
            str(cores), f"{rate:.0f}", *(f"{rate * part[name] * 1e-6:.1f}" for name in PARTS)
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
