"""What commands that read or write one file have in common on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from serve_app.processes.ports import add_port_base


def add_file_arguments(
    command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None], file: str
) -> None:
    """Add the file, described by ``file``, and the instance; set what the command runs."""
    add_port_base(command)
    command.add_argument("file", type=Path, help=file)
    command.set_defaults(run=run)
