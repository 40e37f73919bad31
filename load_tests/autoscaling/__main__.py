"""Load up until replicas come, down until they go: no request may fail, every state must be exact.

A Ray cluster of its own with the shipped inference on one to three replicas. Controllers that ask
all the time are few at first, then many until the replicas are three, then few until there is one
again. Every answer's hidden-state step must be one more than the run's last.

    make autoscaling ARGS="--plot docs/autoscaling.png"
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import httpx
from rich.console import Console

from load_tests.autoscaling.controllers import Tally
from load_tests.autoscaling.plot import plot
from load_tests.autoscaling.up_and_down import AutoscalingError, scaled_application, up_and_down
from load_tests.autoscaling.watch import Look
from load_tests.harness.system import running_system

APPLICATION = "inference"
console = Console(highlight=False, soft_wrap=True)
MANY, CALM_S = 48, 10.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port-base", type=int, default=24500)
    parser.add_argument("--plot", type=Path, help="write a picture of it")
    options = parser.parse_args()
    trouble = None
    application = scaled_application(APPLICATION, "/")
    with running_system(application, port_base=options.port_base) as system:
        try:
            tally, looks = asyncio.run(
                up_and_down(system, APPLICATION, system.url, MANY, CALM_S, _report)
            )
        except* (AutoscalingError, httpx.HTTPError) as errors:
            trouble = str(errors.exceptions[0])
    if trouble:
        console.print(trouble, style="red", markup=False)
        return 1
    if options.plot:
        plot(options.plot, looks)
    return _verdict(tally, looks)


def _report(look: Look) -> None:
    console.print(
        f"{look.at_s:6.0f} s  {look.controllers:3} controllers  {look.replicas} replicas"
        f"  {look.requests_per_s:5.0f} req/s  p50 {look.p50_ms:.1f} ms  p95 {look.p95_ms:.1f} ms"
        f"  {look.moves} moves"
    )


def _verdict(tally: Tally, looks: list[Look]) -> int:
    for kind, cases in (("failed", tally.failed), ("wrong state", tally.wrong)):
        for case in cases[:5]:
            console.print(f"{kind}: {case}", style="red", markup=False)
    console.print(
        f"{tally.answered} requests answered, {len(tally.failed)} failed, {len(tally.wrong)} with a"
        f" wrong state; {looks[-1].moves} moves,"
        f" {looks[-1].moves / max(tally.answered, 1) * 1000:.2f} per 1,000 requests"
    )
    return 1 if tally.failed or tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
