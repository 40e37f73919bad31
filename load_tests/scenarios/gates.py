"""The gates of load tests: bounds of figures, and whether they were met."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

ALL = "all requests"
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
