"""The scenarios: which users there are, how many over time, and for how long.

This module does not import Locust, which changes the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Profile = Sequence[tuple[float, float]]
"""Share of the time and share of the users, by time."""

RISE: Profile = ((0, 0), (0.2, 1), (1, 1))
RUSH_HOUR: Profile = ((0, 0.2), (0.3, 1), (0.7, 1), (1, 0.2))


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        user_classes: names in :mod:`load_tests.scenarios.users`.
        users: at the peak, by default.
        minutes: the length, by default.
    """

    user_classes: Sequence[str]
    users: int
    minutes: float
    profile: Profile = RISE


SCENARIOS = {
    # 200 decisions a second
    "controllers": Scenario(["City"], users=200, minutes=3, profile=RUSH_HOUR),
    "forecasts": Scenario(["Planner"], users=50, minutes=2),
    "public": Scenario(["City", "Planner", "Clerk", "Newcomer"], 100, 3, RUSH_HOUR),
    "records": Scenario(["Clerk"], users=30, minutes=2),
    "simulators": Scenario(["Simulator"], users=16, minutes=2),
    "soak": Scenario(["City", "Planner", "Clerk", "Newcomer", "UnhurriedSimulator"], 60, 30),
}
DEFAULT = "public"


def users_at(profile: Profile, users: int, share: float) -> int | None:
    """Return how many users there are, at least one; None when the profile is over.

    Args:
        users: at the peak.
        share: of the time that has passed.
    """
    for (begin, low), (end, high) in pairwise(profile):
        if begin <= share < end:
            level = low + (high - low) * (share - begin) / (end - begin)
            return max(1, round(users * level))
    return None
