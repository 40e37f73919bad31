"""``greenwave deploy``, ``rollback`` and ``check``, and what ``up`` has in common with them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from serve_app.cli.hints import make_command, same_folder
from serve_app.cli.status import running
from serve_app.errors import ROOT, CommandError, naming_broken_files
from serve_app.processes.edge import behind_edge
from serve_app.processes.installation import releases_of, releases_of_cluster
from serve_app.processes.instance import Instance
from serve_app.processes.ports import add_port_base
from serve_app.rollout.deploy import RUNNING
from serve_app.rollout.resources import needs
from serve_app.rollout.rollout import Rollout
from serve_app.rollout.smoke_test import doubts

DEFAULT_CONFIG = ROOT / "serve_config.yaml"

console = Console(highlight=False, soft_wrap=True)
_say = partial(console.print, style="yellow", markup=False)


def add_deploy(deploy: argparse.ArgumentParser) -> None:
    add_config(deploy)
    _add_common(deploy, _deploy)


def add_rollback(rollback: argparse.ArgumentParser) -> None:
    _add_common(rollback, _rollback)


def _add_common(
    command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None]
) -> None:
    add_port_base(command)
    help = "dashboard of a Ray cluster of several nodes, which nobody here keeps: http://HEAD:8265"
    command.add_argument("--cluster", metavar="URL", help=help)
    add_timeout(command)
    command.set_defaults(run=run)


def add_check(check: argparse.ArgumentParser) -> None:
    help = "serve configs to check"
    check.add_argument("config", nargs="*", type=Path, default=[DEFAULT_CONFIG], help=help)
    check.set_defaults(run=_check)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the serve config to a command line."""
    help = "serve config to deploy"
    parser.add_argument("config", nargs="?", type=Path, default=DEFAULT_CONFIG, help=help)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add ``--timeout`` to a command line."""
    help = "seconds that each application may take until it runs (default: 180)"
    parser.add_argument("--timeout", type=float, default=180.0, help=help)


def _deploy(options: argparse.Namespace) -> None:
    config = read(options)
    instance = None if options.cluster else running(options)
    if instance:
        config = behind_edge(config, instance)
    if _rollout(options, instance).deploy(config):
        console.print("[bold green]Deployed.[/bold green] ", end="")
        console.print(f"`{_undo(options)}` undoes it.", markup=False)
    else:
        console.print("Nothing has changed: config and code are those of the newest release.")
    if instance:
        print_doubts(instance, config)


def _undo(options: argparse.Namespace) -> str:
    if options.cluster:
        return f"{same_folder()}greenwave rollback --cluster {options.cluster}"
    return make_command("rollback", options.port_base)


def _rollback(options: argparse.Namespace) -> None:
    instance = None if options.cluster else running(options)
    _rollout(options, instance).roll_back()
    console.print("[bold green]Rolled back.[/bold green]")


def _check(options: argparse.Namespace) -> None:
    with naming_broken_files():
        from serve_app.rollout.config import read_config
        from serve_app.rollout.model_files import faults_of_weights
    for path in options.config:
        config = read_config(path)
        console.print(f"{os.path.relpath(path)}: valid, {needs(config)}")
        for fault in faults_of_weights(config):  # the machine that serves it may have the file
            _say(f"  It cannot be served here: {fault}")


def read(options: argparse.Namespace) -> dict[str, Any]:
    """Read a config.

    Raises:
        CommandError: it could not be served; nothing has been changed.
    """
    with naming_broken_files():  # these import the services
        from serve_app.rollout.config import read_config
        from serve_app.rollout.model_files import faults_of_weights
    config = read_config(options.config)
    if faults := list(faults_of_weights(config)):
        raise CommandError("\n".join(faults))
    return config


def rollout_of(options: argparse.Namespace, instance: Instance) -> Rollout:
    """Return the way of configs onto an instance, which tells the terminal of its progress."""
    place = instance.dashboard_url, instance.ports.front, releases_of(instance)
    return Rollout(*place, options.timeout, _report, _say)


def _rollout(options: argparse.Namespace, instance: Instance | None) -> Rollout:
    if instance:
        return rollout_of(options, instance)
    releases = releases_of_cluster(options.cluster)
    return Rollout(options.cluster.rstrip("/"), None, releases, options.timeout, _report, _say)


def _report(name: str, status: str, seconds: float) -> None:
    colour = "green" if status == RUNNING else "yellow"
    console.print(f"  {name:<14} [{colour}]{status}[/{colour}] after {seconds:.1f} s")


def print_doubts(instance: Instance, config: dict[str, Any]) -> None:
    """Warn of what runs otherwise than the config asks."""
    for doubt in doubts(instance.front_url, config["applications"]):
        console.print(f"\nBut {doubt}", style="yellow", markup=False)
