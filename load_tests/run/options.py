"""What a run can be told."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from load_tests.harness.shipped import ROOT
from load_tests.run.command import SCENARIOS, described
from serve_app.processes.ports import add_port_base

USUAL = "public"


def read_options(description: str, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; what is wrong with it ends the process with 2 and a sentence.

    Args:
        description: with a place for what there is: ``{scenarios}``.
    """
    parser = argparse.ArgumentParser(
        prog="make load",
        description=description.format(scenarios=described()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", type=_scenario, help=f"default: {USUAL}"
    )
    parser.add_argument("--minutes", type=_minutes, help="length; each scenario has its own")
    parser.add_argument("--users", type=_number, help="at the most; each scenario has its own")
    parser.add_argument("--connections", type=_number, help="of the crowd of overload; else 256")
    add_port_base(parser)
    parser.add_argument("--host", metavar="URL", help="of a system that is somewhere else")
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument(
        "--workers", type=_number, help="processes of Locust on this machine, instead of one"
    )
    workers.add_argument(
        "--remote-workers",
        type=_number,
        help="wait for so many workers on other machines: docs/load.md says how they are started",
    )
    parser.add_argument("--ui", action="store_true", help="serve Locust's own page, without gates")
    parser.add_argument(
        "--folder", type=Path, default=Path("reports/load"), help="default: %(default)s"
    )
    parser.add_argument(
        "--gates",
        type=Path,
        default=ROOT / "load_tests" / "gates.toml",
        help="default: load_tests/gates.toml",
    )
    options = parser.parse_args(arguments)
    options.scenarios = list(dict.fromkeys(options.scenarios)) or [USUAL]
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
