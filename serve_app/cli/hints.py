"""Commands for the operator to copy; they find the same instance from another shell."""

from __future__ import annotations

import shlex

from serve_app.settings import Settings


def make_command(target: str, port_base: int | None) -> str:
    """Return what to type for a target of the Makefile."""
    arguments = f' ARGS="--port-base {port_base}"' if port_base else ""
    return f"{same_folder()}make {target}{arguments}"


def greenwave_command(arguments: str, port_base: int | None) -> str:
    """Return what to type for a command of ``greenwave``."""
    ports = f" --port-base {port_base}" if port_base else ""
    return f"{same_folder()}.venv/bin/greenwave {arguments}{ports}"


def same_folder() -> str:
    """Return the assignment of DATA_DIR before a command; empty for the usual folder."""
    data_dir = Settings().data_dir  # --port-base chooses the folder within
    if data_dir == Settings.usual_data_dir():
        return ""
    return f"DATA_DIR={shlex.quote(str(data_dir.resolve()))} "
