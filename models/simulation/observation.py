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
    halted: Sequence[float],
    capacities: Sequence[float],
) -> Observation:
    """Build (n_phases + 1 + n_lanes,) values, each from 0 to 1.

    Args:
        phase: current green phase, or during yellow the one to come.
        may_change: the min-green flag; false during yellow and minimum green.
        halted: standing vehicles of each incoming lane.
        capacities: vehicles that can queue on each incoming lane.
    """
    observation = np.zeros(n_phases + 1 + len(halted), np.float32)
    observation[phase] = 1
    observation[n_phases] = may_change
    observation[n_phases + 1 :] = np.minimum(1, np.divide(halted, capacities))
    return observation
