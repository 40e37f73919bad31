"""How many users there are, over a load test."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Points = Sequence[tuple[float, float]]
"""Share of the time and share of the users, by time; two at one time are a jump."""

RISE: Points = ((0, 0), (0.2, 1), (1, 1))
RUSH_HOUR: Points = ((0, 0.2), (0.3, 1), (0.7, 1), (1, 0.2))


def users_at(points: Points, users: int, share: float) -> int | None:
    """Return how many users there are, one at least; None when it is over.

    Args:
        users: at the most.
        share: of the time that has passed.
    """
    for (begin, low), (end, high) in pairwise(points):
        if begin <= share < end:
            level = low + (high - low) * (share - begin) / (end - begin)
            return max(1, round(users * level))
    return None
