"""Measures the inference route against its peers, on a Ray cluster of its own.

Peers: (a) the same network on bare FastAPI and uvicorn with states in a dict, in eager PyTorch as
one would write it and with the product's own NumPy step; (b) a FastAPI ingress on Serve, same
settings, that does nothing. Modes are measured against the product's default.

    make bench-inference ARGS="--rounds 7 --seconds 5"
"""

from __future__ import annotations

import argparse
import sys

from load_tests.bench import harness
from load_tests.bench.harness import Bar, console
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import Samples, Target, measure
from load_tests.peers.applications import no_op
from serve_app.processes.instance import Instance
from serve_app.settings import Settings

PRODUCT, NO_OP = "greenwave", "Serve no-op"
TORCH, NUMPY = "FastAPI, PyTorch step", "FastAPI, NumPy step"
MODES = {"strict": {"strict": True}}  # what differs from the default, by name and route prefix
BARS = [
    Bar(PRODUCT, "requests_per_s", 16, TORCH, ">=", 0.85),
    Bar(PRODUCT, "requests_per_s", 16, NO_OP, ">=", 0.90),
    Bar(PRODUCT, "p50_ms", 1, NO_OP, "<=", 1.30),
    *(Bar(mode, "requests_per_s", 16, PRODUCT, ">=", 0.70) for mode in MODES),
]
PEER = "load_tests.peers.fastapi_policy:create_app"


def main() -> int:
    return harness.run(__doc__, 22000, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    inference = shipped_application("inference")
    modes = [
        shipped_application("inference", called=mode, prefix=f"/{mode}", args=args)
        for mode, args in MODES.items()
    ]
    applications = [inference, no_op("/no-op"), *modes]
    base, weights = options.port_base, str(Settings().mappo_agent_path)
    with (
        harness.serving(base, applications) as (instance, seconds),
        harness.uvicorn(PEER, base + 60, PEER_STEP="torch", MAPPO_AGENT_PATH=weights) as torch,
        harness.uvicorn(PEER, base + 61, PEER_STEP="numpy", MAPPO_AGENT_PATH=weights) as numpy,
    ):
        url = instance.base_url
        places = {PRODUCT: url, NO_OP: f"{url}/no-op", TORCH: torch, NUMPY: numpy}
        places |= {mode: f"{url}/{mode}" for mode in MODES}
        targets = [
            Target(name, f"{place}/predict_action", "predict_action.lua")
            for name, place in places.items()
        ]
        samples = measure(
            targets, harness.CONNECTIONS, options.rounds, options.seconds, console.print
        )
        memory = _replica_memory(instance)
    console.print(f"memory of the inference replica: {memory >> 20} MB (bar: under 450 MB)")
    console.print(f"deploy of {len(applications)} to RUNNING: {seconds:.1f} s (bar: under 30 s)")
    return samples


def _replica_memory(instance: Instance) -> int:
    """Return the resident bytes of the largest inference replica."""
    title = "ray::ServeReplica:inference:"
    replicas = [p for p in instance.processes() if "".join(p.cmdline()[:1]).startswith(title)]
    return max(replica.memory_info().rss for replica in replicas)


if __name__ == "__main__":
    sys.exit(main())
