"""``greenwave lab``: routes from counts at entries, and a comparison of controllers on a city."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lab.sim.options import add_scenario, scenario_of
from models.atomic_write import atomic_write, check_writable
from serve_app.cli.hints import require
from serve_app.cli.terminal import notes
from serve_app.errors import CommandError

MAX_SEED = 2**31 - 1  # of SUMO


def add_demand(command: argparse.ArgumentParser) -> None:
    table = ", a table in CSV"
    command.add_argument("net", type=Path, help="SUMO network, .net.xml or .net.xml.gz")
    command.add_argument("--entries", type=Path, help=f"edge,vehicles_per_hour{table}")
    template = "print a table for --entries that has every entry of the network, and end"
    command.add_argument("--template", action="store_true", help=template)
    command.add_argument(
        "--exits", type=Path, help=f"edge,weight{table} (default: every exit, by its lanes)"
    )
    command.add_argument(
        "--turns",
        type=Path,
        help=f"from,to,share{table}; replaces exits; the shares of an edge need not add up to 1",
    )
    command.add_argument(
        "--profile", type=Path, help=f"from_s,factor{table}; factors of the counts"
    )
    command.add_argument("--begin", type=int, default=0, help="second of SUMO's clock (default 0)")
    command.add_argument("--end", type=int, default=3600, help="second (default 3600)")
    command.add_argument("--seed", type=int, default=0, help="of the vehicles (default 0)")
    command.add_argument("--output", type=Path, help="route file to write, .rou.xml")
    command.set_defaults(run=_demand)


def _demand(options: argparse.Namespace) -> None:
    if not 0 <= options.seed <= MAX_SEED:
        raise CommandError(f"--seed must be 0 to {MAX_SEED}.")
    require("libsumo", "SUMO")
    from lab.net.demand import Demand, Entry, Exit, Level, Turn, read_table
    from lab.net.net import load_net
    from lab.net.routing import make_routes

    if options.template:
        entries = load_net(options.net).entries
        if not entries:
            raise CommandError(
                f"{options.net} has no entries, as each edge follows another. Write a table of the"
                " edges where trips begin for --entries, and one of those where they end for"
                " --exits, or make trips with SUMO's randomTrips.py."
            )
        sys.stdout.write("edge,vehicles_per_hour\n" + "".join(f"{edge},0\n" for edge in entries))
        return
    if not options.entries or not options.output:
        raise CommandError("Name --entries and --output, or ask for a --template of the entries.")
    demand = Demand(
        read_table(options.entries, Entry),
        read_table(options.turns, Turn) if options.turns else (),
        read_table(options.exits, Exit) if options.exits else (),
        read_table(options.profile, Level) if options.profile else (),
        options.begin,
        options.end,
        options.seed,
    )
    routes, warnings = make_routes(options.net, demand)
    for sentence in warnings:
        notes.print(sentence, style="yellow")
    with atomic_write(options.output) as file:
        file.write(routes.encode())
    vehicles = routes.count("<vehicle ")
    notes.print(f"{options.output} has {vehicles} vehicles.")


def add_evaluate(command: argparse.ArgumentParser) -> None:
    add_scenario(command)
    command.add_argument("--policy", type=Path, help="agent.th to compare with the controllers")
    command.add_argument(
        "--safety", action="store_true", help="also compare behind the safety layer"
    )
    command.add_argument(
        "--counted",
        type=Path,
        metavar="FILE",
        help="edge,vehicles_per_hour, a table in CSV of roads that end at a signal: the page says"
        " how well the traffic fits these counts (GEH)",
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
    from lab.net.demand import Entry, read_table

    seeds = range(options.first_seed, options.first_seed + options.seeds)
    counts = read_table(options.counted, Entry) if options.counted else ()
    counted = {each.edge: each.vehicles_per_hour for each in counts}
    comparison = Comparison(scenario_of(options), options.policy, seeds, options.safety, counted)
    runs = compare(comparison, options.output, options.workers)
    page = options.output / PAGE
    write_page(comparison, runs, page)
    if options.export is not None:
        export(comparison, options.export)
    times = comparison.scenario.times
    deciding = "The queue rules and the policy" if options.policy else "The queue rules"
    notes.print(f"{deciding} had {times}.")
    notes.print(f"{page} compares {', '.join(comparison.controllers)}.")
