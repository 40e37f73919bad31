"""Kills the parts of a whole system one by one, and changes its version, well and badly, under the
load of clients of every service.

The system is one of its own, started as `make up` does. The exit code is 1 when a service was away
for longer than it may be, clients saw what is not documented, a request failed of a change, or
something acknowledged is gone.

    make chaos ARGS="services --only front,edge,code,rollback --seconds 8"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx
from rich import box
from rich.console import Console
from rich.table import Table

from load_tests.chaos.names import names_of
from load_tests.chaos.services.events import EVENTS
from load_tests.chaos.services.house import House, open_house
from load_tests.chaos.services.requests import ANSWERED
from load_tests.chaos.services.trial import Outcome, run_trial

console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        for each in EVENTS.values():
            console.print(f"{each.name:14} {each.about}")
        return 0
    outcomes: list[Outcome] = []
    console.print("Starting the whole system ...")
    try:
        with open_house() as house:
            for name in options.only:
                outcomes.append(_try(house, name, options.seconds))
    except (RuntimeError, httpx.HTTPError) as error:
        console.print(f"It ends here: {error}", style="red", markup=False)
    except KeyboardInterrupt:
        console.print("\nInterrupted; everything is stopped.", style="yellow")
    if outcomes:
        console.print(_table(outcomes))
    if options.json:
        options.json.write_text(json.dumps([_row(each) for each in outcomes], indent=1))
    complete = len(outcomes) == len(options.only)
    return 0 if complete and not any(each.complaints() for each in outcomes) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", type=names_of(EVENTS), default=list(EVENTS), help="by comma; all by default"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="shortest load of each")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--list", action="store_true", help="list what may happen, and stop")
    return parser


def _try(house: House, name: str, seconds: float) -> Outcome:
    console.print(f"{name}: {EVENTS[name].about} ...", end=" ")
    outcome = asyncio.run(run_trial(house, EVENTS[name], seconds))
    complaints = outcome.complaints()
    console.print("[red]noticed[/red]" if complaints else "[green]kept[/green]")
    for sentence in complaints:
        console.print(f"    {sentence}", markup=False)
    return outcome


def _row(outcome: Outcome) -> dict[str, Any]:
    return {
        "event": outcome.event.name,
        "about": outcome.event.about,
        "away_s": {name: round(seconds, 2) for name, seconds in outcome.away_s.items()},
        "slowest_s": round(outcome.slowest_s, 2),
        "requests": dict(outcome.kinds),
        "lost_steps": outcome.lost,
        "missing_records": outcome.missing,
        "complaints": outcome.complaints(),
    }


def _table(outcomes: list[Outcome]) -> Table:
    title = "longest time in which a service answered nobody, in seconds"
    services = list(outcomes[0].away_s)
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("what happens")
    for name in (*services, "slowest", "lost", "missing"):
        table.add_column(name, justify="right")
    table.add_column("what clients saw")
    for each in outcomes:
        figures = [f"{each.away_s[name]:.1f}" for name in services]
        others = [f"{n} x {kind}" for kind, n in each.kinds.items() if kind != ANSWERED]
        saw = ", ".join([f"{each.kinds[ANSWERED]} answered", *others])
        counts = (f"{each.slowest_s:.1f}", str(each.lost), str(each.missing))
        table.add_row(each.event.about, *figures, *counts, saw)
    return table
