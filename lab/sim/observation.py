"""The observation of one junction, as the shipped policy was trained on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Observation = NDArray[np.float32]


def encode_observation(
    phase: int,
    n_phases: int,
    may_change: bool,
    counted: Sequence[float],
    scales: Sequence[float],
) -> Observation:
    """Build (n_phases + 1 + n_lanes + n_calls,) values, each from 0 to 1.

    Args:
        phase: current green phase, or during yellow the one to come.
        may_change: the min-green flag; false during yellow and minimum green.
        counted: vehicles of each incoming lane, and seconds that each pedestrian call has waited.
        scales: what is 1: vehicles that can queue on each lane, and the longest call.
    """
    observation = np.zeros(n_phases + 1 + len(counted), np.float32)
    observation[phase] = 1
    observation[n_phases] = may_change
    observation[n_phases + 1 :] = np.minimum(1, np.divide(counted, scales))
    return observation
