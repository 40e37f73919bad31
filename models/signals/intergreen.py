"""Intergreen times: from the end of one movement's green to the beginning of another's.

Source: RiLSA (Richtlinien für Lichtsignalanlagen, FGSV, 2015), section 2.5: the last vehicle
crosses the stop line within the yellow, and has to have left the place where the ways meet before
the first one of the other movement can reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from models.signal_states import YELLOW_S
from models.signals.crossing import Point, Way

CROSSES_LATE_S = {False: 3.0, True: 2.0}  # straight on, turning: last crossing after the green
CLEARS_AT = {False: 10.0, True: 7.0}  # m/s
ENTERS_AT = 40 / 3.6  # m/s, without having stopped
VEHICLE_M = 6.0  # that has to be out of the way with its end
CLOSE_M = 2.5  # ways that come closer meet: the width of a vehicle and some air
STEP_M = 0.25

Matrix = tuple[tuple[int | None, ...], ...]


def intergreen_matrix(ways: Sequence[Way]) -> Matrix:
    """Return seconds from the end of a link's green (row) to the beginning of another's (column).

    None where the two do not meet.
    """
    sampled = [_sample(way.shape) for way in ways]
    return tuple(
        tuple(
            _intergreen_s(ending, beginning, sampled[i], sampled[j])
            for j, beginning in enumerate(ways)
        )
        for i, ending in enumerate(ways)
    )


def _intergreen_s(
    ending: Way, beginning: Way, clears: NDArray[np.float64], enters: NDArray[np.float64]
) -> int | None:
    """Return whole seconds, never less than the yellow."""
    if ending.lane == beginning.lane:  # one behind the other
        return None
    apart_m = np.hypot(*(clears[:, None] - enters[None]).transpose(2, 0, 1))
    left, reached = np.nonzero(apart_m < CLOSE_M)
    if ending.edge == beginning.edge:  # they merge, be it on neighbouring lanes
        left, reached = np.append(left, len(clears) - 1), np.append(reached, len(enters) - 1)
    if not len(left):
        return None
    clears_s = (left * STEP_M + VEHICLE_M) / CLEARS_AT[ending.turns]
    enters_s = reached * STEP_M / ENTERS_AT
    longest_s = float((clears_s - enters_s).max())  # of all places where they meet
    return max(YELLOW_S, ceil(CROSSES_LATE_S[ending.turns] + longest_s))


def _sample(shape: Sequence[Point]) -> NDArray[np.float64]:
    """Return (n, 2) points along a line, at most ``STEP_M`` apart, from end to end."""
    points = [np.array(shape[:1])]
    for start, end in pairwise(np.array(shape)):
        steps = ceil(np.hypot(*(end - start)) / STEP_M)
        points.append(start + (end - start) * np.arange(1, steps + 1)[:, None] / max(1, steps))
    return np.concatenate(points)
