"""Measures what the requests of a city and of simulators cost, and computes the cores they need.

CPU time is that of HAProxy, the replicas and the state actors at 16 connections, beyond what they
take when idle; the load generator's is not in it. The computed cores leave a part for Ray, the
edge, and bursts.

    make bench-city ARGS="--rounds 3 --seconds 4"
"""

from __future__ import annotations

import argparse
import math
import secrets
import statistics
import sys

import httpx
from rich.table import Table

from load_tests.bench import harness
from load_tests.bench.cpu import PARTS, Cost, cost_of, idle_of
from load_tests.bench.harness import console
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import Samples, Target, run_wrk

ONE, FIVE, GATEWAY = "one junction", "five junctions in one call", "decision at the gateway"
USER = {"username": "bench", "password": secrets.token_urlsafe()}
CONNECTIONS = 16
SPARE = 0.7  # of the processors' time

JUNCTIONS, PERIOD_S = 10_000, 5.0
SIMULATORS, JUNCTIONS_EACH = 1000, 5
TIMES_REAL = (1, 10, 100)


def main() -> int:
    return harness.run(__doc__, 24000, [], _measure)


def _measure(options: argparse.Namespace) -> Samples:
    login = {"JWT_AUTH_USERNAME": USER["username"], "JWT_AUTH_PASSWORD": USER["password"]}
    applications = [
        shipped_application("inference", replicas=2),
        shipped_application("gateway", replicas=2, env=login),
    ]
    samples: Samples = {}
    with harness.serving(options.port_base, applications) as (instance, _):
        base = instance.base_url
        answer = httpx.post(f"{base}/api/auth/login", json=USER, timeout=10).raise_for_status()
        bearer = f"Authorization: Bearer {answer.json()['accessToken']}"
        targets = [
            Target(ONE, f"{base}/predict_action", "predict_for_runs.lua"),
            Target(FIVE, f"{base}/predict_actions", "predict_runs_at_once.lua"),
            Target(GATEWAY, f"{base}/api/traffic/action", "traffic_action.lua", (bearer,)),
        ]
        for target in targets:  # every state gets its owner
            run_wrk(target, CONNECTIONS, options.seconds)
        idle = idle_of(instance)
        for number in range(1, options.rounds + 1):
            for target in targets:
                cost = cost_of(instance, target, CONNECTIONS, options.seconds, idle)
                samples.setdefault((target.name, CONNECTIONS), []).append(cost)
                parts = ", ".join(f"{part} {cost.parts_us[part]:.0f}" for part in PARTS)
                console.print(
                    f"round {number}/{options.rounds}  {target.name:<28}"
                    f" {cost.requests_per_s:6.0f} req/s  {cost.cpu_us:.0f} us of CPU ({parts})"
                )
    _print_cores(samples)
    return samples


def _print_cores(samples: Samples) -> None:
    table = Table("load", "requests/s", "us of CPU each", "cores", title="computed")

    def add(load: str, rate: float, name: str) -> None:
        costs = [each for each in samples[name, CONNECTIONS] if isinstance(each, Cost)]
        cpu_us = statistics.median(each.cpu_us for each in costs)
        cores = rate * cpu_us * 1e-6 / SPARE
        table.add_row(load, f"{rate:.0f}", f"{cpu_us:.0f}", f"{math.ceil(cores * 10) / 10:.1f}")

    city = f"{JUNCTIONS} junctions, each asked for every {PERIOD_S:g} s"
    add(f"{city}, at the gateway", JUNCTIONS / PERIOD_S, GATEWAY)
    add(f"{city}, five in one call", JUNCTIONS / PERIOD_S / 5, FIVE)
    for times in TIMES_REAL:
        load = f"{SIMULATORS} simulators of {JUNCTIONS_EACH} junctions, {times} x real time"
        add(load, SIMULATORS * times / PERIOD_S, FIVE)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
