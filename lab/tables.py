"""Tables, as CSV files and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from models.atomic_write import atomic_write

Rows = Iterable[Sequence[object]]


def write_csv(path: Path, heads: Sequence[str], rows: Rows) -> None:
    """Write a CSV whole or not at all; its folder is made."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heads, *rows])
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.getvalue().encode())


def markdown(heads: Sequence[str], rows: Rows, texts: int = 1) -> list[str]:
    """Return the lines of a table, with some columns of text before the figures."""
    return [
        f"| {' | '.join(heads)} |".replace("|  |", "| |"),
        f"{'|---' * texts}{'|---:' * (len(heads) - texts)}|",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]
