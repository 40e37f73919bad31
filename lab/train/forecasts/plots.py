"""Plots of the reports: forecasts against the truth, and the confidence's calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})

TRUTH, FORECAST, NOW = "#444444", "#d95f02", "#9ecae1"

Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """What one panel shows over the hours of some days: (N,) each."""

    title: str
    hours: Floats
    truth: Floats
    forecast: Floats
    as_now: Floats


def plot_forecasts(path: Path, title: str, unit: str, panels: Sequence[Curve]) -> None:
    """One panel per column, one below the other, with midnight lines."""
    figure = Figure(figsize=(11, 1.9 * len(panels) + 0.8), layout="constrained")
    figure.suptitle(title)
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(all_axes, panels, strict=True):
        axes.plot(panel.hours, panel.as_now, color=NOW, lw=1, label="as now")
        axes.plot(panel.hours, panel.truth, color=TRUTH, lw=1.4, label="truth")
        axes.plot(panel.hours, panel.forecast, color=FORECAST, lw=1.4, label="LSTM")
        axes.set_title(panel.title, loc="left", fontsize=9)
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        for midnight in range(24, int(panel.hours.max()) + 1, 24):
            axes.axvline(midnight, color="#cccccc", lw=0.8)
    all_axes[0].legend(loc="upper right", ncols=3, frameon=False)
    all_axes[-1].set_xlabel("hours since the first midnight")
    all_axes[-1].set_xticks(range(0, int(panels[0].hours.max()) + 2, 6))
    _save(figure, path)


class Reliability(NamedTuple):
    """Forecasts with so many minutes observed: (N,) confidence, and whether the event came."""

    observed: int
    confidences: Floats
    hits: NDArray[np.bool_]

    def bins(self, n_bins: int = 10) -> tuple[Floats, Floats]:
        """Mean confidence and frequency of the event, in bins of equal number."""
        order = np.array_split(self.confidences.argsort(), n_bins)
        said = np.array([self.confidences[part].mean() for part in order])
        came = np.array([self.hits[part].mean() for part in order])
        return said, came

    @property
    def calibration_error(self) -> float:
        """Mean absolute difference of both over the bins."""
        said, came = self.bins()
        return float(np.abs(said - came).mean())


def plot_calibration(path: Path, title: str, curves: Sequence[Reliability]) -> None:
    """Plot what the confidence said against how often it came true."""
    figure = Figure(figsize=(5.6, 5.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#cccccc", lw=1, label="perfect")
    for curve in curves:
        said, came = curve.bins()
        error = f"off by {curve.calibration_error:.3f}"
        axes.plot(said, came, marker="o", ms=4, lw=1.2, label=f"{curve.observed} min, {error}")
    axes.set(xlim=(0, 1), ylim=(0, 1), title=title)
    axes.set_xlabel("confidence, mean of a tenth of the forecasts")
    axes.set_ylabel("share of them within tolerance")
    axes.legend(frameon=False, title="observed history")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # without the version in it, the same figure is the same file
    figure.savefig(path, dpi=110, metadata={"Software": None})
