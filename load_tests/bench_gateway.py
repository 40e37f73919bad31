"""Measures the gateway's decisions against the inference route that it calls, on a Ray cluster of
its own.

Three gateways: by Serve handle (the default), over HTTP through the local front, and with nothing
behind it, so that its breaker is open and every answer is the fallback.

    python -m load_tests.bench_gateway --rounds 7 --seconds 5
"""

from __future__ import annotations

import argparse
import copy
import secrets
import sys
from pathlib import Path
from typing import Any

import httpx
import yaml
from rich.console import Console

from load_tests.report import Bar, print_bars, print_figures, write_samples
from load_tests.serving import ROOT, serving
from load_tests.wrk import BenchmarkError, Target, measure
from serve_app.instance import Ports

CONNECTIONS = [1, 16]
INFERENCE, HANDLE, HTTP = "inference route", "gateway", "gateway over HTTP"
FALLBACK = "gateway, breaker open"
BARS = [
    Bar("requests_per_s", 16, HANDLE, INFERENCE, ">=", 0.5),
    Bar("p50_ms", 1, HANDLE, INFERENCE, "<=", 4.0),
    Bar("p50_ms", 1, FALLBACK, HANDLE, "<=", 1.0),
]
PREFIXES = {HANDLE: "/api", HTTP: "/http/api", FALLBACK: "/down/api"}
USER = {"username": "bench", "password": secrets.token_urlsafe()}

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one run of wrk")
    parser.add_argument("--port-base", type=int, default=22000)
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    options = parser.parse_args()
    try:
        with serving(_config(options.port_base), options.port_base) as (instance, _):
            targets = _targets(instance.base_url)
            samples = measure(targets, CONNECTIONS, options.rounds, options.seconds, console.print)
    except BenchmarkError as error:
        console.print(f"[red]{error}[/red]")
        return 1
    print_figures(console, samples)
    print_bars(console, samples, BARS)
    if options.json:
        write_samples(samples, options.json)
    return 0


def _config(port_base: int) -> dict[str, Any]:
    """The shipped inference and gateway on one replica each, and two more gateways."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "serve_config.yaml").read_text())
    shipped = {app["name"]: app for app in config["applications"]}
    front = f"http://127.0.0.1:{Ports.from_base(port_base).http}"
    config["applications"] = [
        _on_one_replica(shipped["inference"]),
        _gateway(shipped["gateway"], HANDLE),
        _gateway(shipped["gateway"], HTTP, {"RL_INFERENCE_SERVICE_URL": f"{front}/predict_action"}),
        _gateway(shipped["gateway"], FALLBACK, inference_app="none"),
    ]
    return config


def _gateway(
    shipped: dict[str, Any], name: str, env: dict[str, str] | None = None, **args: object
) -> dict[str, Any]:
    application = _on_one_replica(shipped)
    application |= {"name": name, "route_prefix": PREFIXES[name]}
    application["args"] |= args
    user = {f"JWT_AUTH_{key.upper()}": value for key, value in USER.items()}
    application["runtime_env"]["env_vars"] |= user | (env or {})
    return application


def _on_one_replica(shipped: dict[str, Any]) -> dict[str, Any]:
    application: dict[str, Any] = copy.deepcopy(shipped)
    deployment = application["deployments"][0]
    deployment.pop("autoscaling_config", None)
    deployment["num_replicas"] = 1
    return application


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
