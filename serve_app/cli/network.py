"""``greenwave network``: bring a road network of one's own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from models.atomic_write import atomic_write
from models.networks.file import InvalidNetworkError, network_as_json, read_network_file
from models.networks.form import NetworkFile
from models.networks.network import network_of
from serve_app.errors import CommandError, naming_broken_files

PICTURES = (".png", ".svg", ".pdf")

console = Console(stderr=True, highlight=False, soft_wrap=True)


def add_network(network: argparse.ArgumentParser) -> None:
    actions = network.add_subparsers(required=True, metavar="ACTION")
    help = "derive a network file from a SUMO network, and say what is not as it may seem"
    importing = actions.add_parser("import", help=help, description=help)
    importing.add_argument("net", type=Path, help="SUMO network, .net.xml or .net.xml.gz")
    importing.add_argument("--name", help="of the network (default: of the file)")
    of_all = "ids with commas between, to restrict it to (default: all)"
    importing.add_argument("--signals", type=_ids, metavar="IDS", help=of_all)
    importing.add_argument("--output", type=Path, help="file to write (default: print it)")
    importing.set_defaults(run=_import)
    help = "draw the junctions, their lanes and phases"
    show = actions.add_parser("show", help=help, description=help)
    show.add_argument("file", type=Path, help="network file")
    show.add_argument("--output", type=Path, help="png, svg or pdf (default: beside, as png)")
    show.add_argument("--junctions", type=_ids, default=(), help="whose phases to draw")
    show.set_defaults(run=_show)
    help = "check a network file, and say what sizes follow from it"
    check = actions.add_parser("check", help=help, description=help)
    check.add_argument("file", type=Path, help="network file")
    check.set_defaults(run=_check)


def _ids(text: str) -> tuple[str, ...]:
    ids = tuple(each for each in text.split(",") if each)
    if not ids:
        raise argparse.ArgumentTypeError("names no signal")
    return ids


def _import(options: argparse.Namespace) -> None:
    with naming_broken_files():
        from models.cities.importing import import_network
    try:
        network, notes = import_network(options.net, options.name, options.signals)
    except InvalidNetworkError as error:
        raise CommandError(str(error)) from error
    for sentence in notes.sentences():
        console.print(sentence, style="yellow", markup=False)
    text = network_as_json(network)
    if options.output is None:
        sys.stdout.write(text)
    else:
        try:
            with atomic_write(options.output) as file:
                file.write(text.encode())
        except OSError as error:
            raise CommandError(f"{options.output}: {error.strerror}") from error
    console.print(_sizes(network), markup=False)


def _show(options: argparse.Namespace) -> None:
    network = _read(options.file)
    if unknown := set(options.junctions) - {each.id for each in network.junctions}:
        raise CommandError(f"{options.file} has no junction {min(unknown)}.")
    path = options.output or options.file.with_suffix(".png")
    if path.suffix not in PICTURES:
        raise CommandError(f"{path}: a picture is one of {', '.join(PICTURES)}.")
    try:
        from models.cities.drawing import draw_network
    except ModuleNotFoundError as error:
        raise CommandError("Drawing needs Matplotlib: make sim.") from error
    try:
        drawn = draw_network(network, path, options.junctions)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    console.print(f"{path} shows the phases of {drawn} junctions.", markup=False)


def _check(options: argparse.Namespace) -> None:
    console.print(_sizes(_read(options.file)), markup=False)


def _read(path: Path) -> NetworkFile:
    try:
        return read_network_file(path)
    except InvalidNetworkError as error:
        raise CommandError(str(error)) from error


def _sizes(file: NetworkFile) -> str:
    network = network_of(file)
    lanes = sum(each.n_lanes for each in network.junctions.values())
    return (
        f"{file.name}: N_AGENTS {network.n_agents}, N_ACTIONS {network.n_actions},"
        f" MAX_OBS {network.max_obs}; {lanes} incoming lanes."
    )
