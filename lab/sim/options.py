"""The command-line options of a scenario: a network file, its traffic and its rules."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from lab.net.net import load_net
from lab.net.signal_times import signal_times
from lab.sim.configuration import read_sumocfg
from lab.sim.layouts import FILE, LAYOUTS, with_detectors
from lab.sim.scenario import (
    DECISION_S,
    Configured,
    Demand,
    InvalidScenarioError,
    RouteFiles,
    Scenario,
)
from models.networks.file import read_network_file
from models.networks.form import NetworkFile


def add_scenario(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add the options that :func:`scenario_of` reads."""
    parser.add_argument("--network", type=Path, required=required, help="network file of the city")
    parser.add_argument(
        "--sumocfg", type=Path, help="SUMO configuration with net, routes, begin and end"
    )
    parser.add_argument("--net", type=Path, help="SUMO network, without --sumocfg")
    parser.add_argument(
        "--routes", type=Path, nargs="+", default=[], help="SUMO route files, without --sumocfg"
    )
    for name in ("begin", "end"):
        help = "H:MM, or second of SUMO's clock (default: --sumocfg's)"
        parser.add_argument(f"--{name}", type=clock_time, metavar="TIME", help=help)
    add_rules(parser)


def refuse_city_options(
    parser: argparse.ArgumentParser, options: argparse.Namespace, *, but: Collection[str]
) -> None:
    """Exit if an option of :func:`add_scenario` is set without a network file.

    Args:
        but: names of the options that the shipped network has, too.
    """
    scenario = argparse.ArgumentParser()
    add_scenario(scenario, required=False)
    for name, default in vars(scenario.parse_args([])).items():
        if name not in but and getattr(options, name) != default:
            parser.error(f"--{name.replace('_', '-')} belongs to a city: add its --network")


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add the options of :func:`scenario_with`: what is observed, and the times of the signals."""
    parser.add_argument(
        "--counts",
        choices=("standing", "all"),
        default="standing",
        help="vehicles of the observation: all on a lane, or those that stand (default; of the"
        " demo: as the served policy was trained)",
    )
    program = "id of the net's programs for signal times, fixed time, Webster and actuated control"
    parser.add_argument("--program", metavar="ID", help=f"{program} (default: that of the import)")
    weight = "vehicles that a bus counts as in observations, queues and rewards (default 1)"
    parser.add_argument("--bus-weight", type=float, default=1.0, metavar="N", help=weight)
    parser.add_argument(
        "--cyclic",
        action="store_true",
        help="keep the cyclic order of the phases: each at most once between two of the first",
    )
    detectors = "estimate observations and queues from simulated detectors: those of the network"
    layouts = "file (file), or both kinds on each lane (lanes), one kind, or both on each approach"
    parser.add_argument("--detectors", choices=(FILE, *LAYOUTS), help=f"{detectors} {layouts}")
    decision = f"decision to the next (default {DECISION_S}, or more than a change of phase takes)"
    parser.add_argument("--decision", type=int, metavar="S", help=f"seconds from one {decision}")
    for name, what in (
        ("yellow", "of yellow where a phase changes"),
        ("all-red", "of red for all after the yellow"),
        ("min-green", "of green that a phase has at least"),
    ):
        help = f"seconds {what} (default: the most common in the net's programs)"
        parser.add_argument(f"--{name}", type=int, metavar="S", help=help)


def clock_time(text: str) -> int:
    """Convert ``H:MM``, or seconds, to seconds of the day."""
    hours, colon, minutes = text.partition(":")
    if not colon and hours.isdecimal():
        return int(hours)
    if not (hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time of day such as 7:30 nor whole seconds"
        )
    return int(hours) * 3600 + int(minutes) * 60


def scenario_of(options: argparse.Namespace) -> Scenario:
    """Read what the options name.

    Raises:
        InvalidNetworkError, InvalidScenarioError: a file cannot be used, or an option is missing.
    """
    network = read_network_file(options.network)
    begin_s, end_s, configured = options.begin, options.end, None
    if options.sumocfg is not None:
        if options.net is not None or options.routes:
            raise InvalidScenarioError("Say either --sumocfg, or --net and --routes.")
        files = read_sumocfg(options.sumocfg, begin_s, end_s)
        net, routes, additional = files.net, files.routes, files.additional
        begin_s, end_s, configured = files.begin_s, files.end_s, files.configured
    else:
        if options.net is None or not options.routes or end_s is None:
            raise InvalidScenarioError("Say --sumocfg, or --net, --routes and --end.")
        net, routes, additional = options.net, tuple(options.routes), ()
    demand = RouteFiles(routes)
    begin_s = begin_s or 0
    return scenario_with(options, network, net, demand, begin_s, end_s, additional, configured)


def scenario_with(
    options: argparse.Namespace,
    network: NetworkFile,
    net: Path,
    demand: Demand,
    begin_s: int,
    end_s: int,
    additional: tuple[Path, ...] = (),
    configured: Configured | None = None,
) -> Scenario:
    """Return a scenario under the rules of :func:`add_rules`.

    Raises:
        InvalidNetworkError, InvalidScenarioError: the net cannot be used, or lacks the program.
    """
    program = options.program or network.program
    read = load_net(net, program, additional)
    programs = read.programs
    for junction in network.junctions:
        if waut := read.switched.get(junction.id):
            raise InvalidScenarioError(
                f"The WAUT {waut} of SUMO's files switches the programs of signal {junction.id} by"
                " time, and would end those that are compared. Remove it and its wautJunctions,"
                " and choose a program with --program."
            )
    known = dict.fromkeys(each.id for each_of in programs.values() for each in each_of)
    if program is not None and program not in known:
        raise InvalidScenarioError(f"{net} has no program {program}; it has {', '.join(known)}.")
    times = signal_times(programs[each.id][-1] for each in network.junctions if each.id in programs)
    given = options.yellow, options.all_red, options.min_green
    yellow_s, all_red_s, min_green_s = (
        own if asked is None else asked for own, asked in zip(times, given, strict=True)
    )
    decision_s = max(DECISION_S, yellow_s + all_red_s + 1)
    if options.decision is not None:
        decision_s = options.decision
    scenario = Scenario(
        network,
        net,
        demand,
        begin_s,
        end_s,
        decision_s,
        yellow_s,
        all_red_s,
        min_green_s,
        options.counts,
        additional,
        configured,
        cyclic=options.cyclic,
        program=program,
        bus_weight=options.bus_weight,
    )
    return with_detectors(scenario, options.detectors) if options.detectors else scenario
