"""The figures of a benchmark: medians, tables in Markdown, JSON."""

from __future__ import annotations

import platform
import statistics
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psutil

from load_tests.harness.shipped import ROOT

MISSING = "-"

Figures = Mapping[str, float]


@dataclass
class Results:
    """What was measured, by subject and load; each round adds one set of figures.

    Attributes:
        subjects: in the order of their first figures.
        failures: why a subject is missing or incomplete, as sentences.
    """

    subjects: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _rounds: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)

    def add(self, subject: str, figures: Figures, load: str = "") -> None:
        """Add the figures of one round; without a load, those of the subject itself."""
        if subject not in self.subjects:
            self.subjects.append(subject)
        self._rounds.setdefault((subject, load), []).append(figures)

    def median(self, subject: str, figure: str, load: str = "") -> float | None:
        """Return the median over the rounds, or None if the figure was not measured."""
        rounds = self._rounds.get((subject, load), ())
        values = [figures[figure] for figures in rounds if figure in figures]
        return float(statistics.median(values)) if values else None

    @property
    def n_rounds(self) -> int:
        return max(map(len, self._rounds.values()), default=0)

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"subject": subject, "load": load, "rounds": [dict(each) for each in rounds]}
            for (subject, load), rounds in self._rounds.items()
        ]


@dataclass(frozen=True)
class Column:
    """One column of a table: the medians of a figure.

    Attributes:
        versus_first: whether a cell shows its ratio to the first row as well.
    """

    heading: str
    figure: str
    load: str = ""
    digits: int = 0
    versus_first: bool = False

    def cells(self, results: Results, subjects: Sequence[str]) -> Iterator[str]:
        """Yield the cell of each subject."""
        first = 0.0
        for subject in subjects:
            median = results.median(subject, self.figure, self.load)
            if median is None:
                yield MISSING
                continue
            cell = f"{median:,.{self.digits}f}"
            yield f"{cell} ({median / first:.2f} ×)" if self.versus_first and first else cell
            first = first or median


Columns = Sequence[Column]


def load_tables(loads: Sequence[str], *of_subjects: Column) -> list[list[Column]]:
    """Return the tables that most benchmarks have: throughput, latency and cost at each load.

    Args:
        of_subjects: further columns of the last table.
    """
    return [
        [Column(f"req/s at {each}", "per_s", each, versus_first=True) for each in loads],
        [Column(f"p50 ms at {each}", "p50_ms", each, 2) for each in loads]
        + [Column(f"p99 ms at {each}", "p99_ms", each, 2) for each in loads],
        [Column(f"CPU ms each at {each}", "cpu_ms", each, 2) for each in loads] + list(of_subjects),
    ]


def describe_machine() -> str:
    """Return when, at which revision and on what machine a run is made."""
    git = ["git", "describe", "--always", "--dirty"]
    revision = subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC at revision {revision or 'unknown'} on"
        f" {psutil.cpu_count()} cores and {psutil.virtual_memory().total / 1e9:.0f} GB"
        f" ({platform.platform(terse=True)}, Python {platform.python_version()}), with the load"
        f" generator on the same cores; load average before: {psutil.getloadavg()[0]:.1f}"
    )


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table: the first column to the left, the others to the right."""
    rules = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rules, *rows))


def results_table(results: Results, columns: Columns) -> str:
    """Lay out the medians of each subject that has any of these figures; empty without any."""
    subjects = [
        subject
        for subject in results.subjects
        if any(results.median(subject, each.figure, each.load) is not None for each in columns)
    ]
    if not subjects:
        return ""
    cells = [list(column.cells(results, subjects)) for column in columns]
    rows = ([subject, *each] for subject, *each in zip(subjects, *cells, strict=True))
    return markdown_table(["medians", *(column.heading for column in columns)], rows)
