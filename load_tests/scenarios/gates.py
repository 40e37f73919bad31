"""The gates of load tests: bounds of figures, and whether they were met."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from load_tests.scenarios.results import ALL, Row

_FORMS = {
    "p95_ms": ("{:.4g} ms", "at the 95th percentile"),
    "p99_ms": ("{:.4g} ms", "at the 99th percentile"),
    "error_rate": ("{:.3%}", "failed"),
    "growth_mb": ("{:.2f} MB", "grown"),
}


class LoadTestError(Exception):
    """A load test is not possible; the message says why and what to do."""


class Bounds(BaseModel):
    """The greatest values that figures may have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    p95_ms: float | None = Field(None, gt=0)
    p99_ms: float | None = Field(None, gt=0)
    error_rate: float | None = Field(None, ge=0, le=1)


class RouteBounds(Bounds):
    """Bounds of one route.

    Attributes:
        from_connections: the fewest connections of wrk with which the bounds apply.
    """

    from_connections: int = Field(0, ge=0)


class ScenarioGates(Bounds):
    """Bounds of all requests together, and of single routes.

    Attributes:
        growth_mb: of the memory of every process, fitted over the second half; memory is sampled
            only if this is set.
        routes: by method and path. A route without requests misses its gates.
    """

    growth_mb: float | None = Field(None, gt=0)
    routes: Mapping[str, RouteBounds] = {}


Gates = Mapping[str, ScenarioGates]
"""By scenario."""

_GATES = TypeAdapter(dict[str, ScenarioGates])


@dataclass(frozen=True)
class Verdict:
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

    @property
    def is_growth(self) -> bool:
        return self.figure == "growth_mb"

    def __str__(self) -> str:
        number, what = _FORMS[self.figure]
        allowed = f"{number.format(self.bound)} allowed"
        if self.measured is None:
            return f"{self.what}: nothing was measured, {allowed} {what}"
        text = f"{self.what}: {number.format(self.measured)} {what}, {allowed}"
        if self.is_met:
            return text
        return f"{text}: {number.format(self.measured - self.bound)} too much"


def read_gates(path: Path) -> Gates:
    """Read the gates of every scenario.

    Raises:
        LoadTestError: the file cannot be read, or has something that is not a gate.
    """
    try:
        return _GATES.validate_python(tomllib.loads(path.read_text()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LoadTestError(f"{path} cannot be read: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = " > ".join(map(str, first["loc"]))
        raise LoadTestError(f"{path}, {where}: {first['msg']}.") from error


def judge(gates: ScenarioGates, rows: Sequence[Row], connections: int = 0) -> Iterator[Verdict]:
    """Compare the rows with every gate except that of growth.

    Args:
        connections: of wrk, which overloads the service.
    """
    by_route = {row.route: row for row in rows}
    apply = {
        route: bounds
        for route, bounds in gates.routes.items()
        if connections >= bounds.from_connections
    }
    for route, bounds in {ALL: gates, **apply}.items():
        row = by_route.get(route)
        for figure in Bounds.model_fields:
            bound = getattr(bounds, figure)
            if bound is not None:
                yield Verdict(route, figure, bound, getattr(row, figure) if row else None)
