"""The gates of load tests: bounds of figures, and whether they were met, also by memory."""

from __future__ import annotations

import contextlib
import statistics
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from serve_app.processes.process_tags import read_command

ALL = "all requests"
Points = list[tuple[float, int]]
"""Seconds and bytes."""

_FEW = 6  # a line through fewer points shows nothing
_MOST_OF_IT = 0.8  # of the second half; a shorter-lived process was replaced, and has not grown
_FORMS = {
    "p95_ms": ("{:.4g} ms", "at the 95th percentile"),
    "p99_ms": ("{:.4g} ms", "at the 99th percentile"),
    "error_rate": ("{:.3%}", "failed"),
    "growth_mb": ("{:.2f} MB", "grown"),
}


class Bounds(BaseModel):
    """The greatest values that figures may have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    p95_ms: float | None = Field(None, gt=0)
    p99_ms: float | None = Field(None, gt=0)
    error_rate: float | None = Field(None, ge=0, le=1)


class ScenarioGates(Bounds):
    """Bounds of all requests together, and of single routes.

    Attributes:
        growth_mb: of the memory of every process, fitted over the second half; memory is sampled
            only if this is set.
        routes: by method and path. A route without requests misses its gates.
    """

    growth_mb: float | None = Field(None, gt=0)
    routes: Mapping[str, Bounds] = {}


Gates = Mapping[str, ScenarioGates]
"""By scenario."""

_GATES = TypeAdapter(dict[str, ScenarioGates])


class Row(NamedTuple):
    """The requests of one route."""

    requests: int
    error_rate: float
    p95_ms: float
    p99_ms: float


class Verdict(NamedTuple):
    """One gate.

    Attributes:
        measured: None without anything to measure.
    """

    what: str
    figure: str
    bound: float
    measured: float | None

    @property
    def is_met(self) -> bool:
        return self.measured is not None and self.measured <= self.bound

    def __str__(self) -> str:
        number, what = _FORMS[self.figure]
        measured = "nothing was measured"
        if self.measured is not None:
            measured = f"{number.format(self.measured)} {what}"
        allowed = f"{number.format(self.bound)} allowed"
        return f"{'met' if self.is_met else 'missed':<7} {self.what}: {measured}, {allowed}"


def read_gates(path: Path) -> Gates:
    """Read the gates of every scenario.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has something that is not a gate.
    """
    return _GATES.validate_python(tomllib.loads(path.read_text()))


def judge(gates: ScenarioGates, rows: Mapping[str, Row]) -> Iterator[Verdict]:
    """Compare the rows, by route, with every gate except that of growth."""
    for route, bounds in {ALL: gates, **gates.routes}.items():
        row = rows.get(route)
        for figure in Bounds.model_fields:
            bound = getattr(bounds, figure)
            if bound is not None:
                measured = getattr(row, figure) if row and row.requests else None
                yield Verdict(route, figure, bound, measured)


class MemoryWatch:
    """Samples the memory that each process shares with no other (USS).

    Shared memory would not do, because the share of a process grows when another one ends.

    Args:
        processes: finds the processes that live.
    """

    def __init__(self, processes: Callable[[], Sequence[psutil.Process]]) -> None:
        self._processes = processes
        self._started = time.monotonic()
        self.points: dict[str, Points] = {}

    def sample(self) -> None:
        """Take one sample of each living process."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                uss = process.memory_full_info().uss
                command = " ".join(word.rpartition("/")[2] for word in read_command(process))
                name = f"{command.strip()[:50]} ({process.pid})"
                at = time.monotonic() - self._started
                self.points.setdefault(name, []).append((at, uss))

    def judge(self, growth_mb: float) -> Iterator[Verdict]:
        """Judge the growth of each process that lived throughout the second half."""
        half = max((at for each in self.points.values() for at, _ in each), default=0.0) / 2
        judged = False
        for name, each in self.points.items():
            second = [(at, size) for at, size in each if at >= half]
            if len(second) >= _FEW and second[-1][0] - second[0][0] > _MOST_OF_IT * half:
                judged = True
                yield Verdict(name, "growth_mb", growth_mb, fitted_growth(second) / 1e6)
        if not judged:
            yield Verdict("every process", "growth_mb", growth_mb, None)


def fitted_growth(points: Points) -> float:
    """Return by how many bytes the line of least squares rises from the first point to the last."""
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    return slope * (points[-1][0] - points[0][0])
