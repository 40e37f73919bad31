"""``greenwave lab evaluate``: compare controllers and a policy on a city."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lab.sim.options import add_scenario, scenario_of
from models.atomic_write import check_writable
from serve_app.cli.demand import MAX_SEED
from serve_app.cli.hints import require
from serve_app.cli.terminal import notes
from serve_app.errors import CommandError


def add_evaluate(command: argparse.ArgumentParser) -> None:
    add_scenario(command)
    command.add_argument("--policy", type=Path, help="agent.th to compare with the controllers")
    command.add_argument(
        "--safety", action="store_true", help="also compare behind the safety layer"
    )
    command.add_argument("--seeds", type=int, default=10, metavar="N", help="how many (default 10)")
    command.add_argument(
        "--first-seed",
        type=int,
        default=1,
        metavar="S",
        help="first seed; the policy's training must not have used any (default 1)",
    )
    command.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        help="parallel runs (default: all cores)",
    )
    command.add_argument(
        "--output", type=Path, required=True, help="folder for the page and the runs"
    )
    shown = "folder for what the signals show with the first seed under each controller: states as"
    command.add_argument(
        "--export", type=Path, metavar="FOLDER", help=f"{shown} CSV, and the run for sumo-gui"
    )
    command.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> None:
    if min(options.seeds, options.workers) < 1:
        raise CommandError("--seeds and --workers must be at least 1.")
    if not 0 <= options.first_seed <= MAX_SEED - options.seeds:
        raise CommandError(f"Seeds must be 0 to {MAX_SEED}.")
    for folder in filter(None, (options.output, options.export)):
        check_writable(folder)
    require("libsumo", "SUMO")
    from lab.evaluate.comparison import Comparison, compare
    from lab.evaluate.export import export
    from lab.evaluate.page import PAGE, write_page

    seeds = range(options.first_seed, options.first_seed + options.seeds)
    comparison = Comparison(scenario_of(options), options.policy, seeds, options.safety)
    runs = compare(comparison, options.output, options.workers)
    page = options.output / PAGE
    write_page(comparison, runs, page)
    if options.export is not None:
        export(comparison, options.export)
    times = comparison.scenario.times
    deciding = "The queue rules and the policy" if options.policy else "The queue rules"
    notes.print(f"{deciding} had {times}.")
    notes.print(f"{page} compares {', '.join(comparison.controllers)}.")
