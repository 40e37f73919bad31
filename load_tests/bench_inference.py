"""Measures the inference route against its peers, on a Ray cluster of its own.

Peers: (a) the same network on bare FastAPI and uvicorn with states in a dict, in eager PyTorch as
one would write it and with the product's own NumPy step; (b) a FastAPI ingress on Serve, same
settings, that does nothing.

    make bench ARGS="--rounds 7 --seconds 5"
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from load_tests.report import Bar, print_bars, print_figures, write_samples
from load_tests.serving import ROOT, serving
from load_tests.wrk import BenchmarkError, Target, measure, wait_for
from serve_app.instance import Instance
from serve_app.settings import Settings

CONNECTIONS = [1, 16]
PRODUCT, NO_OP = "greenwave", "Serve no-op"
TORCH, NUMPY = "FastAPI, PyTorch step", "FastAPI, NumPy step"
BARS = [
    Bar("requests_per_s", 16, PRODUCT, TORCH, ">=", 0.85),
    Bar("requests_per_s", 16, PRODUCT, NO_OP, ">=", 0.90),
    Bar("p50_ms", 1, PRODUCT, NO_OP, "<=", 1.30),
]

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
        with (
            serving(_config(), options.port_base) as (instance, seconds_to_running),
            _peers(options.port_base),
        ):
            targets = _targets(instance, options.port_base)
            samples = measure(targets, CONNECTIONS, options.rounds, options.seconds, console.print)
            memory = _replica_memory(instance)
    except BenchmarkError as error:
        console.print(f"[red]{error}[/red]")
        return 1
    print_figures(console, samples)
    print_bars(console, samples, BARS)
    console.print(f"memory of the inference replica: {memory >> 20} MB (bar: under 450 MB)")
    console.print(f"deploy to RUNNING: {seconds_to_running:.1f} s (bar: under 30 s)")
    if options.json:
        write_samples(samples, options.json)
    return 0


def _config() -> dict[str, Any]:
    """The shipped inference application on one replica, beside the no-op with the same settings."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "serve_config.yaml").read_text())
    (inference,) = [app for app in config["applications"] if app["name"] == "inference"]
    deployment = inference["deployments"][0]
    deployment.pop("autoscaling_config", None)
    deployment["num_replicas"] = 1
    same = {key: deployment[key] for key in deployment if key not in ("name", "user_config")}
    no_op = {
        "name": "no-op",
        "route_prefix": "/no-op",
        "import_path": "load_tests.peers.serve_noop:app",
        "runtime_env": inference["runtime_env"],
        "deployments": [{"name": "NoOp", **same}],
    }
    config["applications"] = [inference, no_op]
    return config


@contextlib.contextmanager
def _peers(base: int) -> Iterator[None]:
    weights = str(Settings().mappo_agent_path)
    processes = []
    try:
        for port, step in ((base + 60, "torch"), (base + 61, "numpy")):
            command = [sys.executable, "-m", "uvicorn", "--factory", "--no-access-log"]
            command += ["--port", str(port), "--log-level", "warning"]
            command += ["load_tests.peers.fastapi_policy:create_app"]
            env = os.environ | {
                "MAPPO_AGENT_PATH": weights,
                "PEER_STEP": step,
                "OMP_NUM_THREADS": "1",
            }
            processes.append(subprocess.Popen(command, env=env, cwd=ROOT))
            wait_for(f"http://127.0.0.1:{port}/docs")
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait(10)


def _targets(instance: Instance, base: int) -> list[Target]:
    places = {
        PRODUCT: instance.base_url,
        NO_OP: f"{instance.base_url}/no-op",
        TORCH: f"http://127.0.0.1:{base + 60}",
        NUMPY: f"http://127.0.0.1:{base + 61}",
    }
    return [
        Target(name, f"{place}/predict_action", "predict_action.lua")
        for name, place in places.items()
    ]


def _replica_memory(instance: Instance) -> int:
    """Resident bytes of the largest inference replica."""
    title = "ray::ServeReplica:inference:"
    replicas = [p for p in instance.processes() if "".join(p.cmdline()[:1]).startswith(title)]
    return max(replica.memory_info().rss for replica in replicas)


if __name__ == "__main__":
    sys.exit(main())
