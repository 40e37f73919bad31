"""Measures the gateway's decisions beside the inference route that it calls, on one Ray cluster.

Gateways: as shipped; and at other paths, with no inference service, so that its breaker is open and
each answer is the fallback; with the safety layer; with one request in a hundred traced, for a
collector that never answers. From the CPU time of each kind of request, the report computes the
cores that a load needs.

    make bench ARGS="gateway --rounds 7 --only gateway,safety"
"""

from __future__ import annotations

import argparse
import math
import secrets
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from load_tests.bench.harness import (
    ONE,
    SIXTEEN,
    SIXTY_FOUR,
    Benchmark,
    BenchmarkError,
    Target,
    idle_cores,
    system_of,
    take_turns,
)
from load_tests.bench.report import Column, Results, load_tables, markdown_table
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System

INFERENCE, FIVE = "inference route", "inference route, five junctions a call"
GATEWAY, FALLBACK, SAFE = "gateway", "gateway, breaker open", "gateway, safety layer"
TRACED = "gateway, 1 % traced"
GATEWAYS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "gateway": (GATEWAY, {}),
    "breaker": (FALLBACK, {"inference_app": "none"}),
    "safety": (SAFE, {"safety": True, "safety_policy": "any"}),
    "traces": (TRACED, {"inference_app": "inference-traces"}),
}
"""Subject and arguments by the part, which is also the application's name and the prefix of its
path."""
USER = {"username": "bench", "password": secrets.token_urlsafe()}
LOADS = (ONE, SIXTEEN, SIXTY_FOUR)
KINDS = ("HAProxy", "replicas", "state actors")
SPARE = 0.7  # of the processors' time; the rest is for Ray, the edge, and bursts
CITY = "10,000 junctions, a decision every 5 s"
SIMULATORS = "1,000 simulators of five junctions"
NEEDS: Mapping[str, tuple[float, str]] = {
    f"{CITY}, at the gateway": (2000, GATEWAY),
    f"{CITY}, five junctions in one call": (2000, FIVE),
    f"{SIMULATORS}, in real time": (1000, FIVE),
    f"{SIMULATORS}, a hundred times as fast": (100_000, FIVE),
}
"""Loads in predictions per second, by the kind of request."""


def _measure(options: argparse.Namespace, results: Results) -> None:
    with socket.create_server(("127.0.0.1", 0)) as collector:  # accepts, and never answers
        endpoint = f"http://127.0.0.1:{collector.getsockname()[1]}"
        applications = [shipped_application("inference")]
        for part in options.only:
            applications += _gateway(part, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
        with system_of(options, *applications) as system:
            take_turns(_targets(system, options.only), LOADS, options, results)


def _gateway(part: str, tracing: dict[str, str]) -> list[dict[str, Any]]:
    """Return a gateway; if it traces, with its own inference service, which traces, too."""
    env = {f"JWT_AUTH_{key.upper()}": value for key, value in USER.items()}
    args = GATEWAYS[part][1]
    inference = []
    if part == "traces":
        env |= tracing
        name, prefix = args["inference_app"], f"/{part}"
        inference = [shipped_application("inference", called=name, prefix=prefix, env=tracing)]
    prefix = _prefix(part)
    return [
        *inference,
        shipped_application("gateway", called=part, prefix=prefix, env=env, args=args),
    ]


def _prefix(part: str) -> str:
    return "/api" if part == "gateway" else f"/{part}/api"


def _targets(system: System, parts: Sequence[str]) -> list[Target]:
    processes, idle = system.instance.processes, idle_cores(system.instance.processes)
    one, five = f"{system.url}/predict_action", f"{system.url}/predict_actions"
    targets = [
        Target(INFERENCE, one, ("predict",), processes, idle=idle),
        Target(FIVE, five, ("predict_many", "runs=200"), processes, predictions=5, idle=idle),
    ]
    for part in parts:
        base = system.url_of(_prefix(part))
        login = httpx.post(f"{base}/auth/login", json=USER, timeout=10).raise_for_status()
        token = f"Bearer {login.json()['accessToken']}"
        url, requests = f"{base}/traffic/action", "decide_safely" if part == "safety" else "decide"
        _check(part, url, token)
        headers = (f"Authorization: {token}",)
        targets.append(Target(GATEWAYS[part][0], url, (requests,), processes, headers, idle=idle))
    return targets


def _check(part: str, url: str, token: str) -> None:
    """Check that a gateway answers in its own way; this opens the breaker that is to be open."""
    shown = {"phase": 0, "greenSeconds": 20, "redSeconds": [0, 34]}
    body = {"junctionId": "300839359", "observations": [1, 0, 1], "shown": shown}
    wanted = "fallback_mode (inference service down)" if part == "breaker" else "success"
    for _ in range(5):
        answer = httpx.post(url, json=body, headers={"Authorization": token}, timeout=10)
    if (status := answer.json()["status"]) != wanted:
        raise BenchmarkError(f"{GATEWAYS[part][0]} answers with status {status!r}, not {wanted!r}.")


def _cores(results: Results) -> str:
    """Compute the cores that each load needs from the CPU time of a prediction."""
    rows = []
    for load, (per_s, subject) in NEEDS.items():
        cpu_ms = results.median(subject, "cpu_ms", SIXTEEN.name)
        if cpu_ms is not None:
            cores = math.ceil(per_s * cpu_ms / 1000 / SPARE * 10) / 10
            rows.append([load, f"{per_s:,.0f}", f"{cpu_ms:.3f}", f"{cores:.1f}"])
    header = ["computed load", "predictions/s", "CPU ms each", f"cores, {SPARE:.0%} of them busy"]
    return markdown_table(header, rows)


BENCHMARK = Benchmark(
    parts=list(GATEWAYS),
    measure=_measure,
    tables=load_tables(
        [load.name for load in LOADS],
        *(Column(f"of it {kind}", f"cpu_ms {kind}", SIXTEEN.name, 2) for kind in KINDS),
    ),
    notes=_cores,
)
