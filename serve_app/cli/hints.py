"""Commands for the operator to copy; they find the same instance from another shell."""

from __future__ import annotations

import shlex
from importlib.util import find_spec

from serve_app.errors import ROOT, CommandError
from serve_app.settings import Settings, usual_data_dir

IS_CHECKOUT = (ROOT / "Makefile").exists()  # and no installed package


def greenwave_command(arguments: str, port_base: int | None) -> str:
    """Return what to type for a command of ``greenwave``."""
    ports = f" --port-base {port_base}" if port_base else ""
    program = ".venv/bin/greenwave" if IS_CHECKOUT else "greenwave"
    data_dir = Settings().data_dir  # --port-base chooses the folder within
    usual = data_dir == usual_data_dir()
    folder = "" if usual else f"DATA_DIR={shlex.quote(str(data_dir.resolve()))} "
    return f"{folder}{program} {arguments}{ports}"


def require(module: str, name: str, extra: str = "lab") -> None:
    """Check that a library of an extra is installed.

    Raises:
        CommandError: it is not.
    """
    if find_spec(module) is None:
        install = f"pip install 'greenwave[{extra}]'"
        if IS_CHECKOUT:
            install = "make sim" if extra == "lab" else f".venv/bin/pip install -e '.[{extra}]'"
        raise CommandError(f"This command needs {name}. Install it with `{install}`.")
