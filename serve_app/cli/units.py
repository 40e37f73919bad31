"""``greenwave units``: systemd units for this installation."""

from __future__ import annotations

import argparse
import getpass
from pathlib import Path
from string import Template

from serve_app.cli.terminal import results
from serve_app.processes.ports import add_port_base
from serve_app.processes.process_tags import SUPERVISED_BY, Role
from serve_app.processes.supervision.supervisord import STOP_TIMEOUTS_S, supervisor_command
from serve_app.settings import Settings

TEMPLATE = Path(__file__).resolve().parents[2] / "configs" / "greenwave.service.tmpl"
NAMES = {Role.RAY_SUPERVISOR: "greenwave", Role.EDGE: "greenwave-edge"}
TITLES = {
    Role.RAY_SUPERVISOR: "Greenwave: Ray and the services on it",
    Role.EDGE: "Greenwave: the edge",
}


def add_units(units: argparse.ArgumentParser) -> None:
    add_port_base(units)
    units.add_argument(
        "--to", type=Path, default=Path(), help="folder to write to (default: this one)"
    )
    units.add_argument(
        "--user", default=getpass.getuser(), help="user of the processes (default: you)"
    )
    units.set_defaults(run=_units)


def _units(options: argparse.Namespace) -> None:
    options.to.mkdir(parents=True, exist_ok=True)
    for role in STOP_TIMEOUTS_S:
        path = options.to / f"{_name(role, options.port_base)}.service"
        path.write_text(render(role, options.port_base, options.user), encoding="utf-8")
        results.print(f"Wrote {path}")


def render(role: Role, port_base: int | None, user: str) -> str:
    """Return the unit of a supervisor."""
    settings = Settings()  # --port-base chooses the folder within
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=TITLES[role],
        command=" ".join(map(_quote, supervisor_command(role, port_base))),
        user=user,
        data_dir=_quote(f"DATA_DIR={settings.data_dir.resolve()}"),
        supervised_by=f"{SUPERVISED_BY}=systemd",
        stop_timeout_s=STOP_TIMEOUTS_S[role] + 10,
    )


def _name(role: Role, port_base: int | None) -> str:
    return f"{NAMES[role]}-{port_base}" if port_base else NAMES[role]


def _quote(word: str) -> str:
    """Quote a word for systemd, which expands percent signs and dollars."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"'
