"""Means of independent values, with Student's intervals."""

from __future__ import annotations

from math import isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

CONFIDENCE = 0.95
GEH_OK = 5.0  # a modelled count that fits, DMRB volume 12, section 2.1


class Estimate(NamedTuple):
    """A mean and half the width of its 95 % interval, NaN for a single value."""

    mean: float
    half_width: float

    def text(self, digits: int = 1) -> str:
        """Return the mean with its interval, or alone where a single value gives none."""
        mean = f"{self.mean:.{digits}f}"
        return mean if isnan(self.half_width) else f"{mean} ± {self.half_width:.{digits}f}"

    def __str__(self) -> str:
        return self.text()


def estimate(values: ArrayLike) -> Estimate:
    """Return the mean of independent values with Student's interval."""
    sample = np.asarray(values, float)
    if len(sample) < 2:
        return Estimate(float(sample.mean()), float("nan"))
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, len(sample) - 1)
    return Estimate(float(sample.mean()), float(quantile * stats.sem(sample)))


def geh(modelled: float, counted: float) -> float:
    """Return the GEH statistic of two numbers of vehicles per hour, by which a model is judged."""
    both = modelled + counted
    return float(np.sqrt(2 * (modelled - counted) ** 2 / both)) if both else 0.0
