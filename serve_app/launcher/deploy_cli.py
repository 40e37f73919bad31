"""``greenwave deploy`` and ``greenwave rollback``, and what ``up`` has in common with them."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from serve_app.launcher.config import InvalidServeConfigError, read_config
from serve_app.launcher.deploy import RUNNING
from serve_app.launcher.first_calls import doubts
from serve_app.launcher.installation import releases_of
from serve_app.launcher.instance import Instance
from serve_app.launcher.ports import add_port_base
from serve_app.launcher.rollout import Rollout
from serve_app.launcher.status_cli import running
from serve_app.launcher.weights import faults_of_weights

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_CONFIG = ROOT / "serve_config.yaml"

Commands = Any  # argparse's subparsers have no public type

console = Console(highlight=False, soft_wrap=True)


def add_commands(commands: Commands) -> None:
    """Add ``deploy`` and ``rollback``; each sets `run`, a function of the parsed arguments."""
    help = "deploy a config, and the code as it is now, while the old version serves"
    deploy = commands.add_parser("deploy", help=help, description=help)
    deploy.set_defaults(run=_deploy)
    add_config(deploy)
    help = "deploy the config before the present one again"
    rollback = commands.add_parser("rollback", help=help, description=help)
    rollback.set_defaults(run=_rollback)
    for each in (deploy, rollback):
        add_port_base(each)
        add_timeout(each)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the serve config to a command line."""
    help = "serve config to deploy"
    parser.add_argument("config", nargs="?", type=Path, default=DEFAULT_CONFIG, help=help)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add ``--timeout`` to a command line."""
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds until giving up")


def _deploy(options: argparse.Namespace) -> None:
    config = read(options)
    instance = running(options)
    if rollout_of(options, instance).deploy(config):
        console.print("[bold green]Deployed.[/bold green] `make rollback` undoes it.")
    else:
        console.print("Nothing has changed: config and code are those of the newest release.")
    print_doubts(instance, config)


def _rollback(options: argparse.Namespace) -> None:
    rollout_of(options, running(options)).roll_back()
    console.print("[bold green]Rolled back.[/bold green]")


def read(options: argparse.Namespace) -> dict[str, Any]:
    """Read a config.

    Raises:
        InvalidServeConfigError: it could not be served; nothing has been changed.
    """
    config = read_config(options.config)
    if faults := list(faults_of_weights(config)):
        raise InvalidServeConfigError("\n".join(faults))
    return config


def rollout_of(options: argparse.Namespace, instance: Instance) -> Rollout:
    """Return the way of configs onto an instance, which tells the terminal of its progress."""
    front = instance.ports.front
    releases = releases_of(instance)
    say = partial(console.print, style="yellow", markup=False)
    return Rollout(instance.dashboard_url, front, releases, options.timeout, _report, say)


def _report(name: str, status: str, seconds: float) -> None:
    colour = "green" if status == RUNNING else "yellow"
    console.print(f"  {name:<14} [{colour}]{status}[/{colour}] after {seconds:.1f} s")


def print_doubts(instance: Instance, config: dict[str, Any]) -> None:
    """Warn of what runs otherwise than the config asks."""
    for doubt in doubts(instance.front_url, config["applications"]):
        console.print(f"\nBut {doubt}", style="yellow", markup=False)
