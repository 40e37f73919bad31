"""What a load test has measured, as Locust writes it down."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ALL = "all requests"


@dataclass
class Row:
    """The requests of one route.

    Attributes:
        route: method and path, or ``ALL``.
        took: how many requests took so many milliseconds.
    """

    route: str
    requests: int = 0
    failures: int = 0
    took: Counter[float] = field(default_factory=Counter)

    @property
    def error_rate(self) -> float | None:
        """Failures as a share of the requests; None where there was no request."""
        return self.failures / self.requests if self.requests else None

    @property
    def p50_ms(self) -> float | None:
        return self._within(0.50)

    @property
    def p95_ms(self) -> float | None:
        return self._within(0.95)

    @property
    def p99_ms(self) -> float | None:
        return self._within(0.99)

    def add(self, other: Row) -> None:
        """Count the requests of another route as well."""
        self.requests += other.requests
        self.failures += other.failures
        self.took += other.took

    def _within(self, share: float) -> float | None:
        """Return the time in which this share of the requests was over; None if there was none."""
        left = share * self.took.total()
        for milliseconds, times in sorted(self.took.items()):
            left -= times
            if left <= 0:
                return milliseconds
        return None


def read_rows(path: Path) -> list[Row]:
    """Read the statistics that Locust has written with ``--json-file``; the last row is ``ALL``."""
    rows = [_row(each) for each in json.loads(path.read_text())]
    whole = Row(ALL)
    for row in rows:
        whole.add(row)
    return [*sorted(rows, key=lambda row: row.route.split()[::-1]), whole]


def read_failures(path: Path) -> list[str]:
    """Read what failed how often, from what Locust has written with ``--csv``."""
    with path.open(newline="") as file:
        failures = sorted(csv.DictReader(file), key=lambda each: -int(each["Occurrences"]))
    return [
        f"{each['Occurrences']} × {each['Method']} {each['Name']}: {each['Error']}"
        for each in failures
    ]


def _row(entry: Mapping[str, Any]) -> Row:
    took = Counter({float(time): number for time, number in entry["response_times"].items()})
    route = f"{entry['method']} {entry['name']}"
    return Row(route, entry["num_requests"], entry["num_failures"], took)
