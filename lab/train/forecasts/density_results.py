"""How good the density forecast is on the test days, and the page that reports it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.train.forecasts.baselines import LinearAutoregression, mean_absolute_errors
from lab.train.forecasts.dataset import HOUR_SLOTS, Calendar, Split, density_windows
from lab.train.forecasts.plots import Curve, plot_forecasts
from lab.train.forecasts.report import Comparison, write_report
from models.density.forecast import DensityForecaster

TITLE = "Density, vehicles/km: mean absolute error on the test days"
SHOWN_DAYS = slice(3, 7)  # Thursday to Sunday of the first test week

Floats = NDArray[np.float64]


def compare(forecaster: DensityForecaster, calendar: Calendar, split: Split) -> Comparison:
    """Mean absolute error on the test days, by method and edge, and over all edges."""
    density = calendar.density_of(forecaster.edges)
    # the autoregression learns from the same windows as the network
    learned = density_windows(density, split.train, stride=1)
    linear = LinearAutoregression(learned.inputs, learned.targets)
    test = density_windows(density, split.test, HOUR_SLOTS)
    forecasts = {
        "LSTM": forecaster(test.inputs),
        "persistence": test.inputs[:, -1],
        "same hour yesterday": test.yesterday,
        "linear autoregression": linear(test.inputs),
    }
    return {
        method: _by_edge(forecaster.edges, mean_absolute_errors(forecast, test.targets))
        for method, forecast in forecasts.items()
    }


def _by_edge(edges: Sequence[str], errors: Floats) -> dict[str, float]:
    named = dict(zip(edges, errors.round(4).tolist(), strict=True))
    return {**named, "all": round(float(errors.mean()), 4)}


def write_density_report(
    forecaster: DensityForecaster,
    calendar: Calendar,
    split: Split,
    comparison: Comparison,
    folder: Path,
) -> None:
    test = density_windows(calendar.density_of(forecaster.edges), split.test, HOUR_SLOTS)
    days = split.test[SHOWN_DAYS] or split.test
    first = days.start * 24
    shown = np.flatnonzero((test.hours >= first) & (test.hours < days.stop * 24))
    forecast = forecaster(test.inputs[shown])
    panels = [
        Curve(
            edge,
            (test.hours[shown] - first).astype(float),
            test.targets[shown, n],
            forecast[:, n],
            test.inputs[shown, -1, n],
        )
        for n, edge in enumerate(forecaster.edges)
    ]
    plot_forecasts(
        folder / "density.png", "Density one hour ahead, Thursday to Sunday", "vehicles/km", panels
    )
    text = f"""
Means over the {len(split.test)} test days, which neither training nor the choice of epoch has seen.
Training saw {len(split.train)} days, the choice of epoch {len(split.validation)}.
The network sees three hours of five edges and nothing else: no clock, no calendar.

![Forecast and truth](density.png)
"""
    write_report(folder / "density.md", TITLE, comparison, text)
