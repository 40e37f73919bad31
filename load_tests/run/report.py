"""What the terminal is told of a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from load_tests.run.gates import Verdict
from load_tests.run.results import Row

console = Console(highlight=False, soft_wrap=True)

FAILURES = 5
BUSY = "CPU usage was too high"  # Locust's own words, when it has ended


def print_rows(scenario: str, rows: Iterable[Row]) -> None:
    """Print a line for each route."""
    table = Table("", "requests", "failed", "p50 ms", "p95 ms", "p99 ms", title=scenario)
    for row in rows:
        times = (row.p50_ms, row.p95_ms, row.p99_ms)
        shown = ("-" if each is None else f"{each:.0f}" for each in times)
        table.add_row(row.route, f"{row.requests}", f"{row.failures}", *shown)
    console.print(table)


def print_findings(failures: Sequence[str], log: str) -> None:
    """Print what failed, and whether the figures are Locust's own rather than the system's."""
    for failure in failures[:FAILURES]:
        console.print(f"failed: {failure}", style="red", markup=False)
    if BUSY in log:
        console.print(
            "Locust itself was short of CPU time, so the times are its own, too: add --workers.",
            style="yellow",
        )


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print every gate; of those for growth, which each process has, the missed and the closest."""
    growth = [each for each in verdicts if each.is_growth]
    closest = max(growth, key=lambda each: each.measured or 0.0, default=None)
    for each in verdicts:
        if not each.is_met:
            console.print(f"missed  {each}", style="red", markup=False)
        elif not each.is_growth or each is closest:
            console.print(f"met     {each}", style="green", markup=False)
