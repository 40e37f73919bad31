"""Loads the running system with scenarios, one after the other, and judges each by its gates.

{scenarios}
For each scenario, the folder gets a report as HTML, every figure as CSV, and Locust's log. The exit
code is 1 if a gate of load_tests/scenarios/gates.toml was missed.

    make load ARGS="controllers records --minutes 2"
    make load ARGS="overload --ui"        # Locust's own page, on http://localhost:8089
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from load_tests.scenarios.gates import LoadTestError, read_gates
from load_tests.scenarios.scenarios import CONNECTIONS, DEFAULT, SCENARIOS, describe
from load_tests.scenarios.session import LoadOptions, Session, console
from load_tests.scenarios.target import find_target
from serve_app.processes.ports import add_port_base

GATES = Path(__file__).with_name("gates.toml")
INTERRUPTED = 130


def main() -> int:
    options = read_options()
    try:
        gates = read_gates(options.gates)
        target = find_target(options.port_base, options.host)
        target.check()
        load = LoadOptions(
            target.url,
            options.folder.resolve(),
            options.users,
            options.minutes,
            options.workers,
            options.remote_workers,
            options.connections,
        )
        session = Session(target, load, gates)
        if options.ui:
            return session.serve_page(options.scenarios[0])
        session.check(options.scenarios)
        missed = [each for each in options.scenarios if not session.run(each)]
    except LoadTestError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print(f"Interrupted; the results until now are in {options.folder}.")
        return INTERRUPTED
    if missed:
        console.print(f"Gates were missed: {', '.join(missed)}.", style="red", markup=False)
    console.print(f"Reports are in {options.folder}.")
    return 1 if missed else 0


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; an error ends the process with 2."""
    parser = argparse.ArgumentParser(
        prog="make load",
        description=(__doc__ or "").format(scenarios=describe()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", type=_scenario, help=f"default: {DEFAULT}"
    )
    parser.add_argument("--minutes", type=_minutes, help="length (default: the scenario's)")
    parser.add_argument("--users", type=_number, help="at the peak (default: the scenario's)")
    parser.add_argument(
        "--connections",
        type=_number,
        help=f"of wrk in the scenario overload (default: {CONNECTIONS})",
    )
    add_port_base(parser)
    parser.add_argument("--host", metavar="URL", help="of a cluster")
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument(
        "--workers", type=_number, help="processes of Locust on this machine (default: one)"
    )
    workers.add_argument(
        "--remote-workers",
        type=_number,
        help="wait for so many workers on other machines; docs/load.md shows how to start them",
    )
    parser.add_argument("--ui", action="store_true", help="serve Locust's own page, without gates")
    parser.add_argument(
        "--folder", type=Path, default=Path("reports/load"), help="default: %(default)s"
    )
    parser.add_argument(
        "--gates", type=Path, default=GATES, help="default: load_tests/scenarios/gates.toml"
    )
    options = parser.parse_args(arguments)
    options.scenarios = list(dict.fromkeys(options.scenarios)) or [DEFAULT]
    if options.ui and len(options.scenarios) > 1:
        parser.error("--ui serves one scenario")
    return options


def _scenario(text: str) -> str:
    if text not in SCENARIOS:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(SCENARIOS)}")
    return text


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0.1 <= minutes < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes from 0.1 on")
    return minutes


if __name__ == "__main__":
    sys.exit(main())
