"""From samples as they come to the window that the flow network reads: sixty minutes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WINDOW = 60  # minutes in
HORIZON = 15  # minutes out
FEATURES = ("vehicle_count", "avg_speed", "occupancy")
MINUTE_S = 60

_AGES_S = np.arange(WINDOW - 1, -1, -1) * MINUTE_S

Floats = NDArray[np.float64]


class Window(NamedTuple):
    """(60, 3) features, oldest minute first, and how many of the minutes were observed."""

    features: Floats
    observed: int


def make_window(timestamps: NDArray[np.int64], samples: Floats) -> Window:
    """Lay the newest sixty samples on the sixty minutes that end with the newest one.

    A minute without a sample is interpolated between its neighbours; minutes before the oldest
    sample repeat it. A minute counts as observed when a sample is within half a minute of it.

    Args:
        timestamps: (n,) strictly increasing seconds, n at least 1.
        samples: (n, 3) features.
    """
    timestamps, samples = timestamps[-WINDOW:], samples[-WINDOW:]
    ages = timestamps[-1] - timestamps
    if len(ages) == WINDOW and np.array_equal(ages, _AGES_S):
        return Window(samples, WINDOW)
    columns = [np.interp(-_AGES_S, -ages, column) for column in samples.T]
    minutes = np.unique((ages + MINUTE_S // 2) // MINUTE_S)
    return Window(np.stack(columns, axis=1), int(np.count_nonzero(minutes < WINDOW)))
