"""Scales of input columns, from the training days alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.artifacts import ColumnScale


def scale_of(values: NDArray[np.floating]) -> ColumnScale:
    """Return the scale of one column's values in training."""
    return ColumnScale(
        mean=round(float(values.mean()), 6),
        std=round(float(values.std()), 6),
        low=round(float(values.min()), 6),
        high=round(float(values.max()), 6),
    )
