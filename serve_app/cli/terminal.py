"""What commands print: results on standard output, and everything else on standard error."""

from __future__ import annotations

import json
import sys
from functools import partial

from rich.console import Console

results = Console(highlight=False, soft_wrap=True, markup=False)
notes = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

warn = partial(notes.print, style="yellow")
"""Print a sentence beside the results of a command that changes the running system."""


def write_json(value: object) -> None:
    sys.stdout.write(f"{json.dumps(value, ensure_ascii=False, indent=2)}\n")
