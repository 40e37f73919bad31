"""The simulated days as one series, split by day, and the windows that the networks learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lab.sim.daily_demand import DAY_S
from lab.train.forecasts.days import DAYS_PER_WEEK
from models.artifacts import ColumnScale
from models.atomic_write import atomic_write
from models.flow.window import HORIZON, WINDOW

DATA_FILE = Path(__file__).with_name("measurements.npz")
HELD_OUT_WEEKS = 2  # for validation, and as many for the test

MINUTES = 24 * 60
SLOT_MINUTES = 5
HOUR_SLOTS = 60 // SLOT_MINUTES
DAY_SLOTS = DAY_S // 60 // SLOT_MINUTES
N_HOURS = 3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measurements:
    """What detectors would have measured on a stretch of days.

    Attributes:
        density: (slots, edges) mean vehicles per kilometre of edge, all lanes together, in slots of
            five minutes; an hour's density is the mean of its twelve.
        vehicle_count: (minutes, junctions) vehicles that crossed the stop lines of the junction's
            incoming lanes in the minute.
        avg_speed: (minutes, junctions) km/h, mean over the time that vehicles spent on the
            incoming edges in the minute; the speed limit when there was none.
        occupancy: (minutes, junctions) share of the incoming lanes' length under vehicles, mean.
    """

    density: NDArray[np.float32]
    vehicle_count: NDArray[np.int16]
    avg_speed: NDArray[np.float32]
    occupancy: NDArray[np.float32]

    def save(self, path: Path) -> None:
        """Write all or nothing."""
        with atomic_write(path) as file:
            np.savez_compressed(file, **asdict(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        with np.load(path) as arrays:
            return cls(**arrays)


_COLUMNS = fields(Measurements)


class Split(NamedTuple):
    """Day numbers; each part is one stretch, so that no window reaches into another part."""

    train: range
    validation: range
    test: range


def split_days(n_days: int) -> Split:
    """Split the days: the last weeks are the test, those before them the validation."""
    held_out = HELD_OUT_WEEKS * DAYS_PER_WEEK
    if n_days <= 2 * held_out:
        raise ValueError(f"{n_days} days are too few; {2 * held_out} are held out")
    first_test, first_validation = n_days - held_out, n_days - 2 * held_out
    return Split(
        range(first_validation), range(first_validation, first_test), range(first_test, n_days)
    )


@dataclass(frozen=True)
class Calendar:
    """All days, with the names of the columns."""

    edges: tuple[str, ...]
    junctions: tuple[str, ...]
    measurements: Measurements

    @property
    def n_days(self) -> int:
        return len(self.measurements.vehicle_count) // MINUTES

    def density_of(self, edges: Sequence[str]) -> Floats:
        """(slots, len(edges)): columns by name."""
        columns = [self.edges.index(edge) for edge in edges]
        return self.measurements.density[:, columns].astype(float)

    def save(self, path: Path) -> None:
        names = {"edges": np.array(self.edges), "junctions": np.array(self.junctions)}
        arrays: dict[str, Any] = names | asdict(self.measurements)
        np.savez_compressed(path, **arrays)

    @classmethod
    def load(cls, path: Path = DATA_FILE) -> Self:
        with np.load(path) as arrays:
            measurements = Measurements(**{each.name: arrays[each.name] for each in _COLUMNS})
            edges, junctions = arrays["edges"].tolist(), arrays["junctions"].tolist()
        return cls(tuple(edges), tuple(junctions), measurements)


def join_days(days: Sequence[Measurements]) -> Measurements:
    """One after the other."""
    return Measurements(
        **{
            each.name: np.concatenate([getattr(day, each.name) for day in days])
            for each in _COLUMNS
        }
    )


@dataclass(frozen=True)
class DensityWindows:
    """(N, 3, edges) hourly densities, (N, edges) of the next hour, and a day before it."""

    inputs: Floats
    targets: Floats
    yesterday: Floats
    hours: NDArray[np.int64]  # (N,) start of the target, in hours since day 0


def density_windows(density: Floats, days: range, stride: int) -> DensityWindows:
    """Windows whose hours all lie in the given days.

    Args:
        density: (slots, edges) of the whole calendar.
        stride: slots between windows; a full hour gives the hours of the clock, less gives
            training hours that begin at any time.
    """
    running = np.cumsum(np.vstack([np.zeros((1, density.shape[1])), density]), axis=0)
    hourly = (running[HOUR_SLOTS:] - running[:-HOUR_SLOTS]) / HOUR_SLOTS  # by first slot
    last = days.stop * DAY_SLOTS - (N_HOURS + 1) * HOUR_SLOTS
    starts = np.arange(days.start * DAY_SLOTS, last + 1, stride)
    target = starts + N_HOURS * HOUR_SLOTS
    return DensityWindows(
        inputs=np.stack([hourly[starts + hour * HOUR_SLOTS] for hour in range(N_HOURS)], axis=1),
        targets=hourly[target],
        # on the first day of the calendar there is no day before
        yesterday=hourly[np.where(target >= DAY_SLOTS, target - DAY_SLOTS, target)],
        hours=target // HOUR_SLOTS,
    )


@dataclass(frozen=True)
class FlowWindows:
    """Where windows begin and what they look at; the features stay in one series for all of them.

    Attributes:
        series: (minutes, junctions, 3) features.
        starts, junctions: (N,) first minute and junction of each window.
    """

    series: Floats
    starts: NDArray[np.int64]
    junctions: NDArray[np.int64]

    def inputs(self, rows: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """(n, 60, 3) features, oldest minute first."""
        minutes = self.starts[rows, None] + np.arange(WINDOW)
        inputs: Floats = self.series[minutes, self.junctions[rows, None]]
        return inputs

    def targets(self, days_before: int = 0) -> Floats:
        """(N,) mean count per minute of the 15 minutes that follow, or of those a day before."""
        counts = self.series[:, :, 0]
        running = np.cumsum(np.vstack([np.zeros((1, counts.shape[1])), counts]), axis=0)
        first = self.starts + WINDOW - days_before * MINUTES
        total = running[first + HORIZON, self.junctions] - running[first, self.junctions]
        means: Floats = total / HORIZON
        return means


def flow_windows(measurements: Measurements, days: range, stride: int) -> FlowWindows:
    """Windows of every junction whose minutes all lie in the given days."""
    columns = (measurements.vehicle_count, measurements.avg_speed, measurements.occupancy)
    series = np.stack([column.astype(float) for column in columns], axis=2)
    starts = np.arange(days.start * MINUTES, days.stop * MINUTES - WINDOW - HORIZON + 1, stride)
    n_junctions = series.shape[1]
    return FlowWindows(
        series, np.repeat(starts, n_junctions), np.tile(np.arange(n_junctions), len(starts))
    )


def scale_of(values: NDArray[np.floating]) -> ColumnScale:
    """Return the scale of one column's values in training."""
    return ColumnScale(
        mean=round(float(values.mean()), 6),
        std=round(float(values.std()), 6),
        low=round(float(values.min()), 6),
        high=round(float(values.max()), 6),
    )
