"""What commands print: results on standard output, and everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Console

Row = dict[str, Any]

results = Console(highlight=False, soft_wrap=True, markup=False)
notes = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

warn = partial(notes.print, style="yellow")
"""Print a sentence beside the results of a command that changes the running system."""


def write_rows(rows: list[Row], line: Callable[[Row], str], *, as_json: bool) -> None:
    """Write rows for programs, or a line for each."""
    if as_json:
        write_json(rows)
        return
    for row in rows:
        sys.stdout.write(f"{line(row)}\n")


def write_json(value: object) -> None:
    sys.stdout.write(f"{json.dumps(value, ensure_ascii=False, indent=2)}\n")
