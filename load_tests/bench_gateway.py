"""Measures the gateway's decisions against the inference route that it calls, on a Ray cluster of
its own.

Two gateways: the shipped one, and one with nothing behind it, so that its breaker is open and every
answer is the fallback.

    make bench-gateway ARGS="--rounds 7 --seconds 5"
"""

from __future__ import annotations

import argparse
import secrets
import sys
from typing import Any

import httpx

from load_tests import harness
from load_tests.harness import Bar, console
from load_tests.wrk import BenchmarkError, Samples, Target, measure
from serve_app.launcher.ports import Ports
from testbed.shipped import shipped_application

INFERENCE, GATEWAY, FALLBACK = "inference route", "gateway", "gateway, breaker open"
BARS = [
    Bar(GATEWAY, "requests_per_s", 16, INFERENCE, ">=", 0.5),
    Bar(GATEWAY, "p50_ms", 1, INFERENCE, "<=", 4.0),
    Bar(FALLBACK, "p50_ms", 1, GATEWAY, "<=", 1.0),
]
PREFIXES = {GATEWAY: "/api", FALLBACK: "/down/api"}
USER = {"username": "bench", "password": secrets.token_urlsafe()}


def main() -> int:
    return harness.run(__doc__, 22000, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    front = f"http://127.0.0.1:{Ports.from_base(options.port_base).http}"
    applications = [
        shipped_application("inference"),
        _gateway(GATEWAY),
        _gateway(FALLBACK, args={"inference_app": "none"}),
    ]
    with harness.serving(options.port_base, applications):
        targets = _targets(front)
        return measure(targets, harness.CONNECTIONS, options.rounds, options.seconds, console.print)


def _gateway(name: str, **changes: Any) -> dict[str, Any]:
    user = {f"JWT_AUTH_{key.upper()}": value for key, value in USER.items()}
    return shipped_application("gateway", called=name, prefix=PREFIXES[name], env=user, **changes)


def _targets(front: str) -> list[Target]:
    targets = [Target(INFERENCE, f"{front}/predict_action", "predict_action.lua")]
    for name, prefix in PREFIXES.items():
        login = httpx.post(f"{front}{prefix}/auth/login", json=USER).raise_for_status()
        bearer = f"Authorization: Bearer {login.json()['accessToken']}"
        url = f"{front}{prefix}/traffic/action"
        targets.append(Target(name, url, "traffic_action.lua", (bearer,)))
        _check(name, url, bearer)
    return targets


def _check(name: str, url: str, bearer: str) -> None:
    """Make sure that the target answers in its own way, and open the breaker of the last."""
    key, _, value = bearer.partition(": ")
    body = {"junctionId": "300839359", "observations": [1, 0, 1]}
    wanted = "fallback_mode (inference service down)" if name == FALLBACK else "success"
    for _ in range(5):
        status = httpx.post(url, json=body, headers={key: value}, timeout=10).json()["status"]
    if status != wanted:
        raise BenchmarkError(f"{name} answers with status {status!r} instead of {wanted!r}")


if __name__ == "__main__":
    sys.exit(main())
