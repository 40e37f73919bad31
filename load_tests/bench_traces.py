"""Measures what traces cost: decisions of the gateway, with an inference service of its own behind
each, without traces, with one request in a hundred traced, and with a collector that never answers.

The three are loaded in turn, and compared within each round: by rates, by latencies, and by the
CPU time that all processes of the system take for a request. Other work on a machine disturbs the
latter less, and least where requests are paced: as many share what is done whatever comes.

    make bench-traces ARGS="--rounds 15 --seconds 2"
"""

from __future__ import annotations

import argparse
import secrets
import socket
import sys
from dataclasses import replace
from typing import Any

import httpx

from load_tests import span_costs
from load_tests.bench import harness
from load_tests.bench.cpu import Cost, print_costs, whole_cost_of
from load_tests.bench.harness import PairedBar, console
from load_tests.harness.collector import collecting
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import Samples, Target
from serve_app.processes.ports import Ports

OFF, ON, HANGING = "no traces", "1 % traced", "1 % traced, collector hangs"
PACED = 128  # connections
SCRIPTS = {1: "traffic_action.lua", 16: "traffic_action.lua", PACED: "traffic_action_paced.lua"}
BARS = [
    PairedBar(mode, figure, connections, OFF, comparison, ratio)
    for mode in (ON, HANGING)
    for figure, connections, comparison, ratio in (
        ("requests_per_s", 16, ">=", 0.97),
        ("cpu_us", 16, "<=", 1.03),
        ("cpu_us", PACED, "<=", 1.03),
        ("p50_ms", 1, "<=", 1.03),
    )
]
USER = {"username": "bench", "password": secrets.token_urlsafe()}


def main() -> int:
    return harness.run(__doc__, 25000, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    span_costs.print_costs(console.print)
    front = f"http://127.0.0.1:{Ports.from_base(options.port_base).http}"
    with collecting() as collector, socket.create_server(("127.0.0.1", 0)) as hanging:
        endpoints = {
            OFF: None,
            ON: collector.url,
            HANGING: f"http://127.0.0.1:{hanging.getsockname()[1]}",
        }
        applications = [
            each
            for number, endpoint in enumerate(endpoints.values())
            for each in _pair(number, endpoint)
        ]
        with harness.serving(options.port_base, applications) as (instance, _):
            targets = [_target(front, number, name) for number, name in enumerate(endpoints)]
            samples: dict[tuple[str, int], list[Cost]] = {}
            for number in range(options.rounds):
                for n, script in SCRIPTS.items():
                    for each in targets:
                        target = replace(each, script=script)
                        cost = whole_cost_of(instance, target, n, options.seconds)
                        samples.setdefault((target.name, n), []).append(cost)
                console.print(f"round {number + 1}/{options.rounds}")
        traces = {span.trace_id for span in collector.spans}
    console.print(f"{len(traces)} traces of {len(collector.spans)} spans were collected")
    print_costs(samples)
    return {key: [*costs] for key, costs in samples.items()}


def _pair(number: int, endpoint: str | None) -> list[dict[str, Any]]:
    env = {f"JWT_AUTH_{key.upper()}": value for key, value in USER.items()}
    if endpoint is not None:
        env["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    name = f"inference-{number}"
    return [
        shipped_application("inference", called=name, prefix=f"/{number}", env=env),
        shipped_application(
            "gateway",
            called=f"gateway-{number}",
            prefix=f"/{number}/api",
            env=env,
            args={"inference_app": name},
        ),
    ]


def _target(front: str, number: int, name: str) -> Target:
    base = f"{front}/{number}/api"
    login = httpx.post(f"{base}/auth/login", json=USER, timeout=10).raise_for_status()
    bearer = f"Authorization: Bearer {login.json()['accessToken']}"
    return Target(name, f"{base}/traffic/action", "traffic_action.lua", (bearer,))


if __name__ == "__main__":
    sys.exit(main())
