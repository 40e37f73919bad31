"""Measures what a second policy beside the one in service costs, as a shadow and as a canary.

The candidate is the shipped policy once more. As a shadow it steps every run; as a canary it could
answer half of them, but not the default run of this load, so what is measured is the choice.

    make bench-policies ARGS="--rounds 15 --seconds 2"
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from load_tests.bench import harness
from load_tests.bench.harness import Bar, console
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import Samples, Target, measure
from models.policy.form import SHIPPED_POLICY

ALONE, SHADOW, CANARY = "one policy", "a shadow beside it", "a canary beside it"
MODES: dict[str, dict[str, Any] | None] = {
    ALONE: None,
    SHADOW: {"mode": "shadow", "share": 1.0},
    CANARY: {"mode": "canary", "share": 0.5},
}
BARS = [Bar(mode, "p50_ms", 1, ALONE, "<=", 1.05) for mode in (SHADOW, CANARY)]


def main() -> int:
    return harness.run(__doc__, 24500, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    applications = [_application(number, mode) for number, mode in enumerate(MODES.values())]
    with harness.serving(options.port_base, applications) as (instance, _):
        targets = [
            Target(name, f"{instance.base_url}/{number}/predict_action", "predict_action.lua")
            for number, name in enumerate(MODES)
        ]
        samples = measure(
            targets, harness.CONNECTIONS, options.rounds, options.seconds, console.print
        )
    for mode in (SHADOW, CANARY):
        for n in harness.CONNECTIONS:
            harness.print_pairs(samples, mode, ALONE, n)
    return samples


def _application(number: int, mode: dict[str, Any] | None) -> dict[str, Any]:
    candidate = mode and {"agent_path": str(SHIPPED_POLICY), "states": "bench"} | mode
    return shipped_application(
        "inference",
        called=f"inference-{number}",
        prefix=f"/{number}",
        user_config={"candidate": candidate},
    )


if __name__ == "__main__":
    sys.exit(main())
