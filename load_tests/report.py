"""What a benchmark has measured: medians, their ratios against bars, and every sample as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console
from rich.table import Table

from load_tests.wrk import Samples, median


class Bar(NamedTuple):
    """A figure of one target is to be at least, or at most, so many times that of another."""

    figure: str
    connections: int
    target: str
    peer: str
    comparison: Literal[">=", "<="]
    bar: float


def print_figures(console: Console, samples: Samples) -> None:
    table = Table("target", "connections", "requests/s", "p50 ms", "p99 ms", title="medians")
    for name, n in samples:
        rate, p50, p99 = (
            median(samples, name, n, what) for what in ("requests_per_s", "p50_ms", "p99_ms")
        )
        table.add_row(name, str(n), f"{rate:.0f}", f"{p50:.2f}", f"{p99:.2f}")
    console.print(table)


def print_bars(console: Console, samples: Samples, bars: Iterable[Bar]) -> None:
    table = Table("figure", "of", "against", "ratio", "bar", "", title="ratios of medians")
    for what, n, target, peer, comparison, bar in bars:
        ratio = median(samples, target, n, what) / median(samples, peer, n, what)
        met = ratio >= bar if comparison == ">=" else ratio <= bar
        verdict = "[green]met[/green]" if met else "[red]missed[/red]"
        figure = f"{what} at {n}"
        table.add_row(figure, target, peer, f"{ratio:.2f}", f"{comparison} {bar}", verdict)
    console.print(table)


def write_samples(samples: Samples, path: Path) -> None:
    rows = [
        {"target": name, "connections": n, **asdict(sample)}
        for (name, n), all_ in samples.items()
        for sample in all_
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1))
