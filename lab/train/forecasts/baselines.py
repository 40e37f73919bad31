"""What a forecast must beat: as now, as yesterday, and a linear autoregression."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class LinearAutoregression:
    """Least squares from all values of a window, and a constant, to the target."""

    def __init__(self, inputs: Floats, targets: Floats, ridge: float = 1e-3) -> None:
        features = self._features(inputs)
        # a trace of ridge, for columns that hardly vary; it does not reach the constant's weight
        penalty = ridge * np.diag(features.var(axis=0)) * len(features)
        gram = features.T @ features + penalty
        self._weights = np.linalg.solve(gram + 1e-9 * np.eye(len(gram)), features.T @ targets)

    def __call__(self, inputs: Floats) -> Floats:
        forecast: Floats = np.maximum(self._features(inputs) @ self._weights, 0.0)
        return forecast

    @staticmethod
    def _features(inputs: Floats) -> Floats:
        flat = inputs.reshape(len(inputs), -1)
        return np.hstack([flat, np.ones((len(flat), 1))])


def mean_absolute_errors(forecast: Floats, truth: Floats) -> Floats:
    """One per column."""
    errors: Floats = np.abs(forecast - truth).mean(axis=0)
    return errors
