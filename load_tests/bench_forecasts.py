"""Measures both forecast routes against the same networks on bare FastAPI and uvicorn.

The peer runs eager PyTorch, as one would first write it; for density, whose product is NumPy, a
second peer runs the product's own model. The floor of Serve is an ingress, same settings, that
does nothing.

    make bench-forecasts ARGS="--rounds 7 --seconds 5"
"""

from __future__ import annotations

import argparse
import sys

from load_tests.bench import harness
from load_tests.bench.harness import Bar, console
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import Samples, Target, measure
from load_tests.peers.applications import no_op

DENSITY, DENSITY_TORCH = "density: greenwave", "density: FastAPI, PyTorch"
DENSITY_SAME = "density: FastAPI, the product's model"
FLOW, FLOW_TORCH = "flow: greenwave", "flow: FastAPI, PyTorch"
NO_OP = "Serve no-op"
PAIRS = [(DENSITY, DENSITY_TORCH), (DENSITY, DENSITY_SAME), (FLOW, FLOW_TORCH)]
BARS = [
    *(Bar(ours, "requests_per_s", 16, peer, ">=", 0.8) for ours, peer in PAIRS),
    *(Bar(ours, "p50_ms", 1, peer, "<=", 1.6) for ours, peer in PAIRS),
    *(Bar(ours, "p50_ms", 1, NO_OP, "<=", 1.1) for ours in (DENSITY, FLOW)),
]
PEER = "load_tests.peers.fastapi_forecasts:create_app"


def main() -> int:
    return harness.run(__doc__, 22500, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    base = options.port_base
    applications = [*map(shipped_application, ("density", "flow")), no_op()]
    with (
        harness.serving(base, applications) as (instance, _),
        harness.uvicorn(PEER, base + 60, PEER_STEP="torch") as eager,
        harness.uvicorn(PEER, base + 61, PEER_STEP="product") as same,
    ):
        targets = [
            Target(DENSITY, f"{instance.base_url}/density/predict", "predict_density.lua"),
            Target(DENSITY_TORCH, f"{eager}/predict", "predict_density.lua"),
            Target(DENSITY_SAME, f"{same}/predict", "predict_density.lua"),
            Target(FLOW, f"{instance.base_url}/flow/forecast", "forecast_flow.lua"),
            Target(FLOW_TORCH, f"{eager}/forecast", "forecast_flow.lua"),
            Target(NO_OP, f"{instance.base_url}/predict_action", "predict_action.lua"),
        ]
        return measure(targets, harness.CONNECTIONS, options.rounds, options.seconds, console.print)


if __name__ == "__main__":
    sys.exit(main())
