"""What a training run reads and reports: where the data come from, and how the methods compare."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lab.train.forecasts.dataset import DATA_FILE, Calendar, Split
from models.artifacts import Card

REPORTS = Path(__file__).parents[3] / "models" / "reports"

Comparison = dict[str, dict[str, float]]


def read_options(
    description: str, output: Path, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Read a training's command line: ``data``, ``output``, ``reports``; set PyTorch's threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=DATA_FILE)
    parser.add_argument("--output", type=Path, default=output)
    parser.add_argument("--reports", type=Path, default=REPORTS)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    return options


def describe_data(calendar: Calendar, split: Split) -> dict[str, Any]:
    """Return the data's origin, checksum and split, for the card."""
    digest = hashlib.sha256()
    for column in fields(calendar.measurements):
        values = getattr(calendar.measurements, column.name)
        digest.update(np.ascontiguousarray(values).tobytes())
    return {
        "source": "SUMO, lab.train.forecasts.generate",
        "days": calendar.n_days,
        "sha256": digest.hexdigest(),
        **{f"{part}_days": [days.start, days.stop - 1] for part, days in split._asdict().items()},
    }


def draft_card(calendar: Calendar, split: Split) -> Card:
    """Return a card without its figures."""
    date = datetime.now(UTC).date().isoformat()
    return Card(
        version=date.replace("-", "."),
        created=date,
        git_revision=git_revision(),
        data=describe_data(calendar, split),
        test_loss=0.0,
        test_mae=0.0,
        metrics={},
    )


def git_revision() -> str:
    """Of the code that trains, with ``-dirty`` when that has been edited since; ``unknown`` outside
    a repository."""
    revision = _git("rev-parse", "--short=12", "HEAD")
    return revision + "-dirty" * bool(_git("status", "--porcelain", "--", ":/*.py")) or "unknown"


def _git(*arguments: str) -> str:
    try:
        found = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except OSError:
        return ""
    return found.stdout.strip()


def write_report(path: Path, title: str, comparison: Comparison, text: str) -> None:
    """Write a Markdown page: a table of methods by column, then the text."""
    header = f"| | {' | '.join(comparison)} |"
    rows = [
        f"| {column} | {' | '.join(f'{errors[column]:.3f}' for errors in comparison.values())} |"
        for column in comparison["LSTM"]
    ]
    rule = "|---" + "|---:" * len(comparison) + "|"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([f"# {title}", "", header, rule, *rows, "", text.strip(), ""]))


def print_comparison(title: str, comparison: Comparison) -> None:
    """Return a table of methods by column."""
    table = Table(title=title)
    table.add_column("")
    for method in comparison:
        table.add_column(method, justify="right")
    for column in next(iter(comparison.values())):
        table.add_row(column, *(f"{errors[column]:.3f}" for errors in comparison.values()))
    Console().print(table)
