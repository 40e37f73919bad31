"""Inject faults into a whole system under load, and report what they cost.

    services   kills parts of it, and changes its version: how long is a service away?
    states     kills, stops and changes replicas, the state actor and the store: is a step lost?

Without a name, both, one after the other: some forty minutes.

    make chaos ARGS="services --help"
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import httpx
from rich import box
from rich.console import Console
from rich.table import Table

from deployments.stateful.options import StateOptions
from load_tests.chaos.experiments import Result, run_experiment
from load_tests.chaos.faults import CHANGES, FAULTS, KILLS
from load_tests.harness.command_line import names_of
from load_tests.harness.system import QUICK
from load_tests.harness.system_under_test import system_under_test
from serve_app.cli.up import exit_on_sigterm

_WORDS = ("fault", "mode", "outcomes", "promise")

MODES: tuple[str, ...] = get_args(StateOptions.model_fields["durability"].annotation)

console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        about: the help text.
        faults: their names.
        title: of the table of results.
        modes: of the durability of hidden states, in which each fault is injected under clients of
            these; without one, under clients of every service.
        settings: environment variables of the system.
    """

    about: str
    faults: Sequence[str]
    title: str
    modes: Sequence[str] = ("",)
    settings: Mapping[str, str] = field(default_factory=dict)


PARTS = {
    "services": Part(
        """Kills the parts of a whole system one by one, and changes its version, well and badly,
under the load of clients of every service.

The system is started as `make up` does. The exit code is 1 when a service was away for longer than
it may be, clients saw something undocumented, a request failed because of a change, or something
acknowledged is gone.

    make chaos ARGS="services --only front,edge,code,rollback --seconds 8"
""",
        [each.name for each in (*KILLS, *CHANGES)],
        "longest time without an answer of a service, in seconds",
    ),
    "states": Part(
        """Kills, stops and changes parts of a whole system under clients of hidden states, and
counts what it costs over HTTP: answered steps that were lost, steps that were made twice, states
that survived a reset, and the longest time without an answer for a run. No step may be lost in any
mode.

The exit code is 1 when a promise of docs/hidden-states.md is broken.

    make chaos ARGS="states --only inference,all-inference --modes memory --seconds 12"
""",
        [
            *("nothing", "inference", "only-inference", "states", "all-inference", "one-by-one"),
            *("inference-pause", "states-pause", "controller", "store", "scale", "rollback", "ray"),
        ],
        "steps lost, doubled, revived; away: longest time without an answer for a run",
        MODES,
        QUICK,
    ),
}


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case []:
            return max(run(part, []) for part in PARTS.values())
        case [("-h" | "--help"), *_]:
            sys.stdout.write(f"{__doc__}\n")
            return 0
        case [name, *options] if name in PARTS:
            return run(PARTS[name], options)
    sys.stderr.write(f"Unknown part {arguments[0]!r}; known: {', '.join(PARTS)}.\n")
    return 2


def run(part: Part, arguments: Sequence[str]) -> int:
    """Inject faults one after the other; return 1 if one cost too much, or was not injected."""
    options = _parser(part).parse_args(arguments)
    trials = [(mode, FAULTS[name]) for mode in options.modes for name in options.only]
    results: list[Result] = []
    console.print("Starting the system ...")
    with _reported(), system_under_test(part.settings) as sut:
        for number, (mode, fault) in enumerate(trials, start=1):
            named = ", ".join(filter(None, (fault.name, mode)))
            console.print(f"{number} of {len(trials)}, {named}: {fault.about} ...", end=" ")
            result = asyncio.run(run_experiment(sut, fault, options.seconds, mode))
            results.append(result)
            complaints = result.complaints()
            console.print("[red]broken[/red]" if complaints else "[green]kept[/green]")
            for sentence in (*complaints, *result.details):
                console.print(f"    {sentence}", markup=False)
            if options.logs and complaints:
                sut.keep_logs(options.logs / f"{number}-{fault.name}")
    if results:
        console.print(_table(part.title, [each.row for each in results]))
    complained = any(each.complaints() for each in results)
    return 1 if complained or len(results) != len(trials) else 0


def _parser(part: Part) -> argparse.ArgumentParser:
    faults = "\n".join(f"  {name:16} {FAULTS[name].about}" for name in part.faults)
    parser = argparse.ArgumentParser(
        prog="make chaos",
        description=part.about,
        epilog=f"faults:\n{faults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = {"only": list(part.faults), "modes": list(part.modes)}
    for name, values in known.items():
        help = "by comma; all by default" if name == "only" else f"by comma: {', '.join(values)}"
        shown = help if len(values) > 1 else argparse.SUPPRESS
        parser.add_argument(f"--{name}", type=names_of(values), default=values, help=shown)
    parser.add_argument("--seconds", type=float, default=12.0, help="shortest load of each")
    parser.add_argument("--logs", type=Path, help="keep the system's logs of a fault here")
    return parser


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Report an error or an interruption; what was measured before is kept."""
    try:
        yield
    except (RuntimeError, TimeoutError, httpx.HTTPError) as error:
        console.print(f"Stopped: {error}", style="red", markup=False)
    except KeyboardInterrupt:
        console.print("\nInterrupted; everything is stopped.", style="yellow")


def _table(title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """Lay out rows with the same columns: words to the left, figures to the right."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in rows[0]:
        table.add_column(column, justify="left" if column in _WORDS else "right")
    for row in rows:
        table.add_row(*row.values())
    return table


if __name__ == "__main__":
    exit_on_sigterm()  # otherwise the systems that it has started would stay
    sys.exit(main(sys.argv[1:]))
