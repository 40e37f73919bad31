"""Commands to copy: in another shell, too, they find the same instance."""

from __future__ import annotations

import shlex

from serve_app.settings import Settings


def make_command(target: str, port_base: int | None) -> str:
    """Return what to type for a target of the Makefile."""
    arguments = f' ARGS="--port-base {port_base}"' if port_base else ""
    return f"{same_folder()}make {target}{arguments}"


def same_folder() -> str:
    """Return the assignment that goes before a command; empty where everybody has the folder."""
    data_dir = Settings().data_dir  # --port-base chooses the folder within
    if data_dir == Settings.usual_data_dir():
        return ""
    return f"DATA_DIR={shlex.quote(str(data_dir.resolve()))} "
