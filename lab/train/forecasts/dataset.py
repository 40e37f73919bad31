"""The simulated days as one series, split by day, and the windows that the networks learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lab.sim.daily_demand import DAY_S
from models.artifacts import ColumnScale
from models.atomic_write import atomic_write
from models.flow.window import FEATURES, HORIZON, WINDOW

DATA_FILE = Path(__file__).with_name("measurements.npz")
DAYS_PER_WEEK = 7
HELD_OUT_WEEKS = 2  # for validation, and as many for the test

MINUTES = 24 * 60
SLOT_MINUTES = 5
HOUR_SLOTS = 60 // SLOT_MINUTES
DAY_SLOTS = DAY_S // 60 // SLOT_MINUTES
N_HOURS = 3
COLUMNS = ("density", *FEATURES)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calendar:
    """What detectors would have measured on a stretch of days.

    Attributes:
        edges, junctions: names of the columns.
        density: (slots, edges) mean vehicles per kilometre of edge, all lanes together, in slots of
            five minutes; an hour's density is the mean of its twelve.
        vehicle_count: (minutes, junctions) vehicles that crossed the stop lines of the junction's
            incoming lanes in the minute.
        avg_speed: (minutes, junctions) km/h, mean over the time that vehicles spent on the
            incoming edges in the minute; the speed limit when there was none.
        occupancy: (minutes, junctions) share of the incoming lanes' length under vehicles, mean.
    """

    edges: tuple[str, ...]
    junctions: tuple[str, ...]
    density: NDArray[np.float32]
    vehicle_count: NDArray[np.int16]
    avg_speed: NDArray[np.float32]
    occupancy: NDArray[np.float32]

    @property
    def n_days(self) -> int:
        return len(self.vehicle_count) // MINUTES

    def density_of(self, edges: Sequence[str]) -> Floats:
        """(slots, len(edges)): columns by name."""
        return self.density[:, [self.edges.index(edge) for edge in edges]].astype(float)

    def save(self, path: Path) -> None:
        """Write all or nothing."""
        arrays: dict[str, Any] = vars(self)
        with atomic_write(path) as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path = DATA_FILE) -> Self:
        with np.load(path) as arrays:
            content: dict[str, Any] = {each: arrays[each] for each in COLUMNS}
            edges, junctions = arrays["edges"].tolist(), arrays["junctions"].tolist()
        return cls(tuple(edges), tuple(junctions), **content)


def join_days(days: Sequence[Calendar]) -> Calendar:
    """One after the other."""
    columns: dict[str, Any] = {
        each: np.concatenate([getattr(day, each) for day in days]) for each in COLUMNS
    }
    return replace(days[0], **columns)


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


class Windows(NamedTuple):
    """N windows of the past, and what followed each.

    Attributes:
        inputs: (N, 3, edges) hourly densities, or (N, junctions, 60, 3) minutes of features.
        targets, yesterday: (N, columns) means of the hour or of the 15 minutes that follow, and of
            those a day before; on the first day of the calendar, which has none, the same.
    """

    inputs: Floats
    targets: Floats
    yesterday: Floats


def density_windows(density: Floats, days: range, stride: int) -> Windows:
    """Windows whose hours all lie in the given days.

    Args:
        density: (slots, edges) of the whole calendar.
        stride: slots between windows; a full hour gives the hours of the clock, less gives
            training hours that begin at any time.
    """
    hourly = _running_means(density, HOUR_SLOTS)
    last = days.stop * DAY_SLOTS - (N_HOURS + 1) * HOUR_SLOTS
    starts = np.arange(days.start * DAY_SLOTS, last + 1, stride)
    inputs = np.stack([hourly[starts + hour * HOUR_SLOTS] for hour in range(N_HOURS)], axis=1)
    return _windows(inputs, hourly, starts + N_HOURS * HOUR_SLOTS, DAY_SLOTS)


def flow_windows(calendar: Calendar, days: range, stride: int) -> Windows:
    """Windows of every junction whose minutes all lie in the given days."""
    series = np.stack([getattr(calendar, each).astype(float) for each in FEATURES], axis=2)
    starts = np.arange(days.start * MINUTES, days.stop * MINUTES - WINDOW - HORIZON + 1, stride)
    inputs = series[starts[:, None] + np.arange(WINDOW)].swapaxes(1, 2)
    means = _running_means(series[:, :, 0], HORIZON)
    return _windows(np.ascontiguousarray(inputs), means, starts + WINDOW, MINUTES)


def flattened(windows: Windows) -> tuple[Floats, NDArray[np.int64]]:
    """Return the (N * junctions, 60, 3) inputs of flow windows, and the junction of each."""
    n_windows, n_junctions = windows.targets.shape
    inputs = windows.inputs.reshape(-1, *windows.inputs.shape[2:])
    return inputs, np.tile(np.arange(n_junctions), n_windows)


def _running_means(series: Floats, length: int) -> Floats:
    """Return the means of so many values, by the first of them."""
    running = np.cumsum(np.vstack([np.zeros((1, series.shape[1])), series]), axis=0)
    means: Floats = (running[length:] - running[:-length]) / length
    return means


def _windows(inputs: Floats, means: Floats, first: NDArray[np.int64], day: int) -> Windows:
    before = np.where(first >= day, first - day, first)
    return Windows(inputs, means[first], means[before])


def scale_of(values: NDArray[np.floating]) -> ColumnScale:
    """Return the scale of one column's values in training."""
    return ColumnScale(
        mean=round(float(values.mean()), 6),
        std=round(float(values.std()), 6),
        low=round(float(values.min()), 6),
        high=round(float(values.max()), 6),
    )
