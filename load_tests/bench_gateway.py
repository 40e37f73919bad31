"""Measures the gateway's decisions against the inference route that it calls, on a Ray cluster of
its own.

Three gateways: the shipped one, one with nothing behind it, so that its breaker is open and every
answer is the fallback, and one with the safety layer.

    make bench-gateway ARGS="--rounds 7 --seconds 5"
"""

from __future__ import annotations

import argparse
import secrets
import sys
from typing import Any

import httpx

from load_tests.bench import harness
from load_tests.bench.harness import Bar, console
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import BenchmarkError, Samples, Target, measure
from serve_app.processes.ports import Ports

INFERENCE, GATEWAY, FALLBACK = "inference route", "gateway", "gateway, breaker open"
SAFE = "gateway, safety layer"
BARS = [
    Bar(GATEWAY, "requests_per_s", 16, INFERENCE, ">=", 0.7),
    Bar(GATEWAY, "requests_per_s", 64, INFERENCE, ">=", 0.85),
    Bar(GATEWAY, "p50_ms", 1, INFERENCE, "<=", 2.2),
    Bar(FALLBACK, "p50_ms", 1, GATEWAY, "<=", 1.0),
    Bar(SAFE, "requests_per_s", 16, GATEWAY, ">=", 0.95),
]
CONNECTIONS = [1, 16, 64]
PREFIXES = {GATEWAY: "/api", FALLBACK: "/down/api", SAFE: "/safe/api"}
USER = {"username": "bench", "password": secrets.token_urlsafe()}


def main() -> int:
    return harness.run(__doc__, 22000, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    front = f"http://127.0.0.1:{Ports.from_base(options.port_base).http}"
    applications = [
        shipped_application("inference"),
        _gateway(GATEWAY),
        _gateway(FALLBACK, args={"inference_app": "none"}),
        _gateway(SAFE, args={"safety": True}),
    ]
    with harness.serving(options.port_base, applications):
        targets = _targets(front)
        return measure(targets, CONNECTIONS, options.rounds, options.seconds, console.print)


def _gateway(name: str, **changes: Any) -> dict[str, Any]:
    user = {f"JWT_AUTH_{key.upper()}": value for key, value in USER.items()}
    return shipped_application("gateway", called=name, prefix=PREFIXES[name], env=user, **changes)


def _targets(front: str) -> list[Target]:
    targets = [Target(INFERENCE, f"{front}/predict_action", "predict_action.lua")]
    for name, prefix in PREFIXES.items():
        login = httpx.post(f"{front}{prefix}/auth/login", json=USER).raise_for_status()
        bearer = f"Authorization: Bearer {login.json()['accessToken']}"
        url = f"{front}{prefix}/traffic/action"
        script = "traffic_action_safe.lua" if name == SAFE else "traffic_action.lua"
        targets.append(Target(name, url, script, (bearer,)))
        _check(name, url, bearer)
    return targets


def _check(name: str, url: str, bearer: str) -> None:
    """Make sure that the target answers in its own way, and open the breaker of the last."""
    key, _, value = bearer.partition(": ")
    shown = {"phase": 0, "greenSeconds": 20, "redSeconds": [0, 34]}
    body = {"junctionId": "300839359", "observations": [1, 0, 1], "shown": shown}
    wanted = "fallback_mode (inference service down)" if name == FALLBACK else "success"
    for _ in range(5):
        status = httpx.post(url, json=body, headers={key: value}, timeout=10).json()["status"]
    if status != wanted:
        raise BenchmarkError(f"{name} answers with status {status!r} instead of {wanted!r}")


if __name__ == "__main__":
    sys.exit(main())
