"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serve_app.cli.folder import default_config
from serve_app.errors import ROOT
from serve_app.processes.ports import add_port_base

CLUSTER_CONFIG = ROOT / "configs" / "cluster.yaml"

Run = Callable[[argparse.Namespace], None]


def add_action(
    actions: Any, name: str, run: Run, help: str, *, has_instance: bool = True
) -> argparse.ArgumentParser:
    """Add an action of a command.

    Args:
        has_instance: whether it concerns the instance of ``--port-base``.
    """
    action: argparse.ArgumentParser = actions.add_parser(name, help=help, description=help)
    if has_instance:
        add_port_base(action)
    action.set_defaults(run=run)
    return action


def add_file(command: argparse.ArgumentParser, run: Run, help: str) -> None:
    """Add the one file that a command reads or writes, and the instance."""
    add_port_base(command)
    command.add_argument("file", type=Path, help=help)
    command.set_defaults(run=run)


def add_config(parser: argparse.ArgumentParser, default: Path | None = None) -> None:
    default = default or default_config()
    help = (
        f"serve config (default: {default.relative_to(ROOT) if default.is_absolute() else default})"
    )
    parser.add_argument("config", nargs="?", type=Path, default=default, help=help)


def add_system(command: argparse.ArgumentParser) -> None:
    """Add what a command can concern: the instance of ``--port-base``, or another cluster."""
    add_port_base(command)
    help = "dashboard of a Ray cluster that is not supervised here: http://HEAD:8265"
    command.add_argument("--cluster", metavar="URL", help=help)


def add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_timeout(parser: argparse.ArgumentParser) -> None:
    help = "seconds that each application may take until it runs (default: 180)"
    parser.add_argument("--timeout", type=float, default=180.0, help=help)
