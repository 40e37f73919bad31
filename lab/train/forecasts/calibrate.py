"""Calibrate the flow forecast's confidence on the validation days (Platt, 1999)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lab.train.forecasts.dataset import FlowWindows
from models.flow.forecast import Calibration, FlowForecaster
from models.flow.window import WINDOW

OBSERVED = (1, 2, 4, 8, 15, 25, 40, 60)
VEHICLES, SHARE = 1.0, 0.1  # tight enough that a forecast can fail it, wide enough to be of use
LEAST_SLOPE = 0.01
LEAST_RISE = 0.02  # of the offset between two knots, where the data show none

Floats = NDArray[np.float64]


def calibrate(forecaster: FlowForecaster, windows: FlowWindows) -> Calibration:
    """Fit slope and offsets so that the confidence is the frequency of the event."""
    start = Calibration(
        vehicles=VEHICLES, share=SHARE, slope=1.0, observed=(WINDOW,), offsets=(0.0,)
    )
    fitted, _ = _fit_logistic(*_margins_and_hits(forecaster, windows, start, WINDOW))
    slope = max(fitted, LEAST_SLOPE)  # on very little data the fit may point the other way
    offsets = [
        _fit_logistic(*_margins_and_hits(forecaster, windows, start, observed), slope)[1]
        for observed in OBSERVED
    ]
    return Calibration(
        vehicles=VEHICLES,
        share=SHARE,
        slope=round(slope, 4),
        observed=OBSERVED,
        offsets=tuple(round(offset, 4) for offset in strictly_rising(offsets)),
    )


def strictly_rising(values: Sequence[float]) -> list[float]:
    """Find the nearest values that never fall (isotonic regression), tilted about the last."""
    last = len(values) - 1
    never_falling = [
        max(min(np.mean(values[a : b + 1]) for b in range(i, last + 1)) for a in range(i + 1))
        for i in range(last + 1)
    ]
    return [float(value) - LEAST_RISE * (last - i) for i, value in enumerate(never_falling)]


def shortened_inputs(windows: FlowWindows, observed: int) -> Floats:
    """Return the windows as they are served when only their newest minutes are known."""
    inputs, oldest = windows.inputs(), WINDOW - observed
    inputs[:, :oldest] = inputs[:, oldest, None]
    return inputs


def _margins_and_hits(
    forecaster: FlowForecaster, windows: FlowWindows, start: Calibration, observed: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Logarithm of tolerance over scale, and whether the error was within the tolerance."""
    inputs = shortened_inputs(windows, observed)
    flows, scales = forecaster.outlook(inputs, windows.junctions)
    margins = np.log(start.tolerance(flows) / scales)
    return margins, np.abs(flows.round() - windows.targets()) <= start.tolerance(flows.round())


def _fit_logistic(
    margins: Floats, hits: NDArray[np.bool_], slope: float | None = None
) -> tuple[float, float]:
    """Maximum likelihood of ``sigmoid(slope * margin + offset)`` by Newton's method."""
    weights = np.array([1.0 if slope is None else slope, 0.0])
    features = np.stack([margins, np.ones_like(margins)], axis=1)
    free = [0, 1] if slope is None else [1]
    for _ in range(50):
        probabilities = 1.0 / (1.0 + np.exp(-np.clip(features @ weights, -30.0, 30.0)))
        gradient = features.T @ (hits - probabilities)
        curvature = (features.T * (probabilities * (1 - probabilities))) @ features
        curvature += 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        weights[free] += np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-8:
            break
    return float(weights[0]), float(weights[1])
