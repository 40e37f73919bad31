"""The curve of a run as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

COLUMNS = (
    *("iteration", "reward", "waiting_s", "time_loss_s", "validation", "explained", "value_loss"),
    *("policy_loss", "entropy", "kl", "clipped", "actor_steps", "wall_s"),
)


class Log:
    """A CSV file with a row per iteration; rows that no checkpoint stands behind are dropped."""

    def __init__(self, path: Path, iteration: int) -> None:
        self._path = path
        rows = []
        if path.exists():
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if int(row["iteration"]) < iteration]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)

    def write(self, row: Mapping[str, float]) -> None:
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS).writerow(
                {name: f"{value:.6g}" for name, value in row.items()}
            )
