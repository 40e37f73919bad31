"""Compares Greenwave with what a user would pick instead to serve the same policy.

In each round, every contender in turn is started, warmed up, loaded with the same requests over 1,
16 and 64 connections, and stopped: one at a time, so that CPU time and memory are its own alone.
Counted are all its processes (of a Ray cluster: every one, HAProxy included), and neither wrk nor
this program. The report has medians over the rounds, and ratios of medians.

    make bench ARGS="--rounds 5 --busy"
    make bench ARGS="--contenders greenwave,fastapi --rounds 1"
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.markdown import Markdown

from load_tests.bench import machine
from load_tests.bench.comparison.environment import EnvironmentMissingError
from load_tests.bench.comparison.figures import Turn
from load_tests.bench.contenders import CONTENDERS, Contender
from load_tests.bench.harness import console
from load_tests.bench.report import Report
from load_tests.bench.turn import take
from load_tests.harness.shipped import ROOT
from load_tests.harness.wrk import BenchmarkError
from serve_app.processes.instance import InstanceError
from serve_app.rollout.deploy import DeployError

FAILURES = (BenchmarkError, DeployError, InstanceError, EnvironmentMissingError)


def main() -> int:
    options = _options()
    if not shutil.which("wrk"):
        _complain("wrk is needed for this benchmark; on Debian: apt-get install wrk")
        return 1
    conditions = machine.look()
    ready = [each for each in options.contenders if _is_ready(each)]
    turns: dict[str, list[Turn]] = {}
    try:
        whole = _measure(ready, options, turns) and len(ready) == len(options.contenders)
    except KeyboardInterrupt:
        _complain("Interrupted; this is what was measured before:")
        whole = False
    if options.docs and not whole:
        _complain("docs/ stays as it is, because something is missing.")
    if turns:
        told = Report(conditions, options.seconds, options.contenders, turns)
        console.print(Markdown(told.tables()))
        for path in told.write(options.folder, docs=options.docs and whole):
            console.print(f"written: {path}")
    return 0 if whole else 1


def _measure(
    ready: Sequence[Contender], options: argparse.Namespace, turns: dict[str, list[Turn]]
) -> bool:
    """Add every contender's turns; return whether none had to be left out."""
    left = list(ready)
    for number in range(1, options.rounds + 1):
        for contender in tuple(left):
            console.print(f"round {number} of {options.rounds}: {contender.name}")
            try:
                turn = take(
                    contender, options.port_base, options.seconds, options.busy, console.print
                )
            except FAILURES as error:
                _complain(f"{contender.name} is left out from here: {error}")
                left.remove(contender)
            else:
                turns.setdefault(contender.name, []).append(turn)
    return len(left) == len(ready)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--contenders",
        type=_read_contenders,
        default=list(CONTENDERS.values()),
        help=f"some of {','.join(CONTENDERS)}, in this order; all by default",
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="length of one load; default: %(default)s"
    )
    parser.add_argument(
        "--busy", action="store_true", help="measure beside a busy loop on one core, too"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "reports" / "bench",
        help="for the tables, the JSON and the picture; default: reports/bench",
    )
    parser.add_argument(
        "--docs", action="store_true", help="put them into docs/, in place of those that are there"
    )
    parser.add_argument(
        "--port-base", type=int, default=22000, help="first of 500 ports; default: %(default)s"
    )
    return parser.parse_args()


def _read_contenders(text: str) -> list[Contender]:
    unknown = [key for key in text.split(",") if key not in CONTENDERS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown)}: not known; there are {', '.join(CONTENDERS)}"
        )
    return [CONTENDERS[key] for key in dict.fromkeys(text.split(","))]


def _is_ready(contender: Contender) -> bool:
    environment = contender.environment
    if environment is None or environment.is_ready:
        return True
    console.print(f"Making the virtual environment of {contender.name} (a few minutes) ...")
    try:
        environment.make()
    except EnvironmentMissingError as error:
        _complain(f"{contender.name} is left out: {error}")
        return False
    return True


def _complain(sentence: str) -> None:
    console.print(sentence, style="red", markup=False)


if __name__ == "__main__":
    sys.exit(main())
