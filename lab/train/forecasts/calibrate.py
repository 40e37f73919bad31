"""Calibrate the flow forecast's confidence on the validation days (Platt, 1999)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from lab.train.forecasts.dataset import Windows, flattened
from models.flow.forecast import Calibration, FlowForecaster
from models.flow.window import WINDOW

OBSERVED = (1, 2, 4, 8, 15, 25, 40, 60)
# a tolerance tight enough that a forecast can fail it, and wide enough to be of use
UNCALIBRATED = Calibration(vehicles=1.0, share=0.1, slope=1.0, observed=(WINDOW,), offsets=(0.0,))
LEAST_SLOPE = 0.01
LEAST_RISE = 0.02  # of the offset between two knots, where the data show none

Floats = NDArray[np.float64]


def calibrate(forecaster: FlowForecaster, windows: Windows) -> Calibration:
    """Fit slope and offsets so that the confidence is the frequency of the event."""
    fitted, _ = _fit_logistic(*_margins_and_hits(forecaster, windows, WINDOW))
    slope = max(fitted, LEAST_SLOPE)  # on very little data the fit may point the other way
    offsets = [
        _fit_logistic(*_margins_and_hits(forecaster, windows, observed), slope)[1]
        for observed in OBSERVED
    ]
    return Calibration(
        vehicles=UNCALIBRATED.vehicles,
        share=UNCALIBRATED.share,
        slope=round(slope, 4),
        observed=OBSERVED,
        offsets=tuple(round(offset, 4) for offset in strictly_rising(offsets)),
    )


def strictly_rising(values: Sequence[float]) -> list[float]:
    """Find the nearest values that never fall (isotonic regression), tilted about the last."""
    tilt = LEAST_RISE * np.arange(1 - len(values), 1)
    rising: list[float] = (isotonic_regression(values).x + tilt).tolist()
    return rising


def shortened_inputs(inputs: Floats, observed: int) -> Floats:
    """Return (N, 60, 3) windows as they are served when only their newest minutes are known."""
    shortened, oldest = inputs.copy(), WINDOW - observed
    shortened[:, :oldest] = inputs[:, oldest, None]
    return shortened


def _margins_and_hits(
    forecaster: FlowForecaster, windows: Windows, observed: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Logarithm of tolerance over scale, and whether the error was within the tolerance."""
    inputs, junctions = flattened(windows)
    flows, scales = forecaster.outlook(shortened_inputs(inputs, observed), junctions)
    margins = np.log(UNCALIBRATED.tolerance(flows) / scales)
    errors = np.abs(flows.round() - windows.targets.ravel())
    return margins, errors <= UNCALIBRATED.tolerance(flows.round())


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
