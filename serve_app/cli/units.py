"""``greenwave units``: writes systemd's units for this installation."""

from __future__ import annotations

import argparse
import getpass
from pathlib import Path
from string import Template

from rich.console import Console

from serve_app.processes.ports import add_port_base
from serve_app.processes.process_tags import KEPT_BY, Part
from serve_app.processes.supervision.supervisor import KEEPERS, keeper_command
from serve_app.settings import Settings

TEMPLATE = Path(__file__).resolve().parents[2] / "configs" / "greenwave.service.tmpl"
NAMES = {Part.NODE: "greenwave", Part.EDGE: "greenwave-edge"}
TITLES = {Part.NODE: "Greenwave: Ray and the services on it", Part.EDGE: "Greenwave: the edge"}

console = Console(highlight=False, soft_wrap=True)


def add_units(units: argparse.ArgumentParser) -> None:
    add_port_base(units)
    units.add_argument("--to", type=Path, default=Path(), help="folder (default: this one)")
    units.add_argument("--user", default=getpass.getuser(), help="who runs it (default: you)")
    units.set_defaults(run=_units)


def _units(options: argparse.Namespace) -> None:
    options.to.mkdir(parents=True, exist_ok=True)
    for part in KEEPERS:
        path = options.to / f"{_name(part, options.port_base)}.service"
        path.write_text(render(part, options.port_base, options.user), encoding="utf-8")
        console.print(f"Wrote {path}", markup=False)


def render(part: Part, port_base: int | None, user: str) -> str:
    """Return the unit of a keeper."""
    settings = Settings()  # --port-base chooses the folder within
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=TITLES[part],
        command=" ".join(map(_quote, keeper_command(part, port_base))),
        user=user,
        data_dir=_quote(f"DATA_DIR={settings.data_dir.resolve()}"),
        kept_by=f"{KEPT_BY}=systemd",
        patience_s=KEEPERS[part] + 10,
    )


def _name(part: Part, port_base: int | None) -> str:
    return f"{NAMES[part]}-{port_base}" if port_base else NAMES[part]


def _quote(word: str) -> str:
    """Quote a word as systemd reads it: percent signs and dollars are not for it."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"'
