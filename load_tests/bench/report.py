"""The report of a benchmark: tables in Markdown, every figure as JSON, a picture."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from matplotlib.figure import Figure

from load_tests.bench.results import Results, Threshold
from load_tests.harness.command_line import save_figure
from load_tests.harness.shipped import ROOT

SPEED = ROOT / "docs" / "speed.md"
LABELS = {"per_s": "predictions/s", "p50_ms": "p50", "p99_ms": "p99", "cpu_ms": "CPU time"}
MISSING = "-"


@dataclass(frozen=True)
class Column:
    """One column of a table: the medians of a figure.

    Attributes:
        versus_first: whether a cell shows its ratio to the first row of its group as well. The
            group is what stands before a colon in the name of a subject.
    """

    heading: str
    figure: str
    load: str = ""
    digits: int = 0
    versus_first: bool = False

    def cells(self, results: Results, subjects: Sequence[str]) -> Iterator[str]:
        """Yield the cell of each subject."""
        firsts: dict[str, float] = {}
        for subject in subjects:
            median = results.median(subject, self.figure, self.load)
            if median is None:
                yield MISSING
                continue
            group = subject.partition(":")[0] if ":" in subject else ""
            first = firsts.setdefault(group, median)
            cell = f"{median:,.{self.digits}f}"
            versus = self.versus_first and first is not median and first
            yield f"{cell} ({median / first:.2f} ×)" if versus else cell


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


@dataclass(frozen=True)
class Section:
    """A part of a report, with its place in the docs.

    Attributes:
        name: of the comments that enclose it on its page.
        part: the part of the benchmark that measures it; None if all parts are needed.
        draw: makes its picture, which is called ``picture``.
    """

    name: str
    tables: Sequence[Columns]
    thresholds: Sequence[Threshold] = ()
    part: str | None = None
    page: Path = SPEED
    caption: str = ""
    picture: str = ""
    draw: Callable[[Results], Figure] | None = None
    notes: Callable[[Results], str] | None = None

    def is_measured(self, results: Results) -> bool:
        return any(results_table(results, columns) for columns in self.tables)

    def text(self, results: Results, conditions: str) -> str:
        """Return the section in Markdown."""
        parts = [conditions]
        if self.draw:
            parts.append(f"![{self.caption}]({self.picture})")
        parts += [text for columns in self.tables if (text := results_table(results, columns))]
        if self.thresholds:
            parts.append(thresholds_table(results, self.thresholds))
        if self.notes:
            parts.append(self.notes(results))
        return "\n\n".join(filter(None, parts))


@dataclass(frozen=True)
class Report:
    """The results of a run, its conditions, and the sections that show them."""

    name: str
    sections: Sequence[Section]
    results: Results
    conditions: str
    seconds: float

    def text(self) -> str:
        return "\n\n".join(section.text(self.results, "") for section in self.sections)

    def write(self, folder: Path) -> Iterator[Path]:
        """Write tables, figures and pictures into a folder, and yield the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / f"{self.name}.md"
        texts = [each.text(self.results, "") for each in self.sections]
        page.write_text("\n\n".join([self._conditions(), *texts]) + "\n")
        yield page
        path = folder / f"{self.name}.json"
        content = {
            "conditions": self.conditions,
            "seconds": self.seconds,
            "results": self.results.as_json(),
        }
        path.write_text(json.dumps(content, indent=1) + "\n")
        yield path
        for section in self.sections:
            yield from _save_picture(section, self.results, folder)

    def write_docs(self) -> Iterator[Path]:
        """Replace the sections and pictures in the docs, and yield the paths."""
        for section in self.sections:
            text = section.text(self.results, self._conditions())
            section.page.write_text(replace_section(section.page.read_text(), section.name, text))
            yield section.page
            yield from _save_picture(section, self.results, section.page.parent)

    def _conditions(self) -> str:
        others = self.results.values("other_cores")
        beside = (
            f" Meanwhile other programs, and other machines of the host, took"
            f" {statistics.median(others):.2f} cores (median), {max(others):.2f} at most."
            if others
            else ""
        )
        return (
            f"{self.conditions}.{beside}\n\nMedians of {self.results.n_rounds} rounds, each load"
            f" for {self.seconds:g} s; in brackets the ratio to the"
            f" first row, or to the first row of the same group."
        )


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


def thresholds_table(results: Results, thresholds: Iterable[Threshold]) -> str:
    """Lay out each threshold whose figures were measured, and whether it is met."""
    rows = []
    for each in thresholds:
        ratio = each.measured(results)
        if ratio is None:
            continue
        peer = each.peer if each.peer_load is None else each.peer_load
        rows.append(
            [
                f"{each.subject}, {LABELS.get(each.figure, each.figure)} at {each.load}",
                f"{each.comparison} {each.ratio:g} × {peer}",
                f"{ratio:.2f} ×",
                "met" if each.is_met_by(ratio) else "missed",
            ]
        )
    return markdown_table(["figure", "target", "measured", ""], rows) if rows else ""


def replace_section(page: str, name: str, content: str) -> str:
    """Return the page with other content between its comments ``name`` and ``end of name``.

    Raises:
        ValueError: the page does not have both, once each.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"The page needs exactly one {begin} and one {end}.")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{content.strip()}\n\n{end}{rest.partition(end)[2]}"


def _save_picture(section: Section, results: Results, folder: Path) -> Iterator[Path]:
    if section.draw:
        path = folder / section.picture
        save_figure(section.draw(results), path)
        yield path
