"""``greenwave network``: import, check and draw the road network of a city."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from models.atomic_write import atomic_write
from models.networks.file import network_as_json, read_network_file
from models.networks.form import WALK_S, JunctionEntry, NetworkFile
from models.networks.network import network_of
from serve_app.cli.arguments import add_action, add_json
from serve_app.cli.hints import require
from serve_app.cli.terminal import notes, write_json
from serve_app.errors import CommandError


def add_network(network: argparse.ArgumentParser) -> None:
    actions = network.add_subparsers(required=True, metavar="ACTION")
    help = "derive a network file from a SUMO network, and report what is left out"
    importing = add_action(actions, "import", _import, help, has_instance=False)
    nets = "SUMO network, .net.xml or .net.xml.gz, or .sumocfg that names one"
    importing.add_argument("net", type=Path, help=nets)
    importing.add_argument("--name", help="of the network (default: of the file)")
    signals = "ids with commas between (default: all)"
    importing.add_argument("--signals", type=_ids, metavar="IDS", help=signals)
    program = "id of the program to take where a signal has several (default: the last)"
    importing.add_argument("--program", metavar="ID", help=program)
    calls = "let policies observe how long pedestrians have been waiting at each crossing"
    importing.add_argument("--pedestrian-calls", action="store_true", help=calls)
    walks = "m/s of pedestrians who clear a crossing, 0.5 to 2 (default 1.2)"
    importing.add_argument("--walking-speed", type=_speed, default=1.2, metavar="SPEED", help=walks)
    prepares = "seconds of red and yellow before a green, where the country has it (default 0)"
    importing.add_argument("--red-yellow", type=int, choices=range(3), default=0, help=prepares)
    importing.add_argument("--output", type=Path, help="file to write (default: print it)")
    help = "draw the junctions and their phases, and list movements, crossings and remarks"
    show = add_action(actions, "show", _show, help, has_instance=False)
    show.add_argument("file", type=Path, help="network file")
    show.add_argument("--output", type=Path, help="SVG to write (default: beside the file)")
    show.add_argument(
        "--junctions", type=_ids, default=(), help="ids of junctions whose phases to draw"
    )
    help = "check a network file, and report its sizes"
    check = add_action(actions, "check", _check, help, has_instance=False)
    check.add_argument("file", type=Path, help="network file")
    add_json(check)


def _ids(text: str) -> tuple[str, ...]:
    ids = tuple(each for each in text.split(",") if each)
    if not ids:
        raise argparse.ArgumentTypeError("names no signal")
    return ids


def _speed(text: str) -> float:
    speed = float(text)
    if not 0.5 <= speed <= 2:
        raise argparse.ArgumentTypeError("must be from 0.5 to 2 m/s")
    return speed


def _import(options: argparse.Namespace) -> None:
    from lab.net.importing import import_network

    net, additional = _named(options.net)
    chosen = options.name, options.signals, options.program, options.pedestrian_calls
    times = options.walking_speed, options.red_yellow
    network, remarks = import_network(net, *chosen, additional, *times)
    for sentence in remarks.sentences():
        notes.print(sentence, style="yellow")
    text = network_as_json(network)
    if options.output is None:
        sys.stdout.write(text)
    else:
        with atomic_write(options.output) as file:
            file.write(text.encode())
    notes.print(_in_words(network))


def _named(path: Path) -> tuple[Path, tuple[Path, ...]]:
    """Return the net and the additional files that a path names, be it that of a configuration."""
    if path.suffix != ".sumocfg":
        return path, ()
    require("libsumo", "SUMO")
    from lab.sim.configuration import read_sumocfg

    files = read_sumocfg(path, end_s=1)
    return files.net, files.additional


def _show(options: argparse.Namespace) -> None:
    network = read_network_file(options.file)
    if unknown := set(options.junctions) - {each.id for each in network.junctions}:
        raise CommandError(f"{options.file} has no junction {min(unknown)}.")
    path = options.output or options.file.with_suffix(".svg")
    if path.suffix != ".svg":
        raise CommandError(f"{path}: the name must end with .svg.")
    from lab.net.drawing import draw_network

    drawn = draw_network(network, path, options.junctions)
    for junction in drawn:
        for number, phase in enumerate(junction.phases):
            words = phase.name or phase.state or ""
            notes.print(f"{junction.id} phase {number}: {words}")
        for sentence in _crossings_in_words(junction):
            notes.print(sentence)
    named = tuple(f"{each}{mark}" for each in options.junctions for mark in (":", " "))
    for sentence in network.remarks:
        if not named or sentence.startswith(named):
            notes.print(sentence, style="yellow")
    notes.print(f"{path} shows the phases of {len(drawn)} junctions.")


def _crossings_in_words(junction: JunctionEntry) -> Iterator[str]:
    """Yield for each crossing its walk, its clearance, and the phases that serve it."""
    for place, link in junction.placed_links:
        if link.crossing is None:
            continue
        phases = [
            f"{number}"
            for number, phase in enumerate(junction.phases)
            if (phase.state or "")[place : place + 1] in ("g", "G")
        ]
        times = (junction.intergreen_s or ())[place : place + 1]
        clears_s = max((seconds or 0 for row in times for seconds in row), default=0)
        words = f"walk {link.walk_s or WALK_S:g} s, clearance {clears_s} s"
        served = f"in phases {', '.join(phases)}" if phases else "in no phase"
        yield f"{junction.id} crossing {link.crossing}: {words}, {served}"


def _check(options: argparse.Namespace) -> None:
    network = read_network_file(options.file)
    if options.json:
        write_json({"name": network.name, **_sizes(network)})
    else:
        notes.print(_in_words(network))


def _sizes(file: NetworkFile) -> dict[str, int]:
    network = network_of(file)
    lanes = sum(each.n_lanes for each in network.junctions.values())
    sizes = {"n_agents": network.n_agents, "n_actions": network.n_actions}
    return {**sizes, "max_obs": network.max_obs, "lanes": lanes}


def _in_words(file: NetworkFile) -> str:
    *sizes, (_, lanes) = _sizes(file).items()
    named = ", ".join(f"{name.upper()} {size}" for name, size in sizes)
    return f"{file.name}: {named}; {lanes} incoming lanes."
