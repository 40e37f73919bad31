"""The simulated calendar: what kind of day each day is, drawn from its number alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.sim.daily_demand import HOUR_S, DayProfile, read_demand
from lab.sim.shipped import Breakdown, draw_shipped_breakdown
from models.networks.shipped import DEMAND_FILE

DAYS_PER_WEEK = 7
CALENDAR_SEED = 2026

# fmt: off
WEEKEND = DayProfile(
    level=(0.18, 0.14, 0.10, 0.06, 0.05, 0.06, 0.10, 0.18, 0.30, 0.46, 0.60, 0.68,
           0.72, 0.70, 0.66, 0.66, 0.68, 0.66, 0.60, 0.50, 0.40, 0.34, 0.28, 0.22),
    evening_share=(0.6, 0.6, 0.6, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4,
                   0.5, 0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.6),
)
# fmt: on

# What no day shares with the one before. The mean is below 1 because at full demand the center is
# at capacity, and a jam that lasts all day teaches nothing.
DAY_LEVEL = (0.94, 0.06)  # mean and spread of a factor on the whole day
HOUR_LEVEL_SPREAD = 0.05  # of a factor on each hour
SHIFT_H = 0.4  # rush hours come up to this much earlier or later
BREAKDOWNS_PER_DAY = 0.7


@dataclass(frozen=True)
class Day:
    """One day of the calendar; day 0 is a Monday."""

    number: int
    expected: DayProfile  # what the signals' plans are made for
    profile: DayProfile  # what comes
    breakdowns: tuple[Breakdown, ...]

    @property
    def seed(self) -> int:
        return 1_000_000 + self.number


def is_weekend(number: int) -> bool:
    return number % DAYS_PER_WEEK >= 5


def draw_day(number: int) -> Day:
    """Return the day of this number, the same on every call."""
    rng = np.random.default_rng((CALENDAR_SEED, number))
    expected = WEEKEND if is_weekend(number) else read_demand(DEMAND_FILE).profile
    level = float(np.clip(rng.normal(*DAY_LEVEL), 0.8, 1.06))
    shift = rng.uniform(-SHIFT_H, SHIFT_H)
    hourly = level * np.exp(rng.normal(0, HOUR_LEVEL_SPREAD, 24))
    shifted = [expected.at((hour - shift) * HOUR_S) for hour in range(24)]
    profile = DayProfile(
        level=tuple(float(f * at[0]) for f, at in zip(hourly, shifted, strict=True)),
        evening_share=tuple(at[1] for at in shifted),
    )
    breakdowns = tuple(
        draw_shipped_breakdown(
            rng, depart_s=(6 * HOUR_S, 21 * HOUR_S), duration_s=(20 * 60, 75 * 60)
        )
        for _ in range(rng.poisson(BREAKDOWNS_PER_DAY))
    )
    return Day(number, expected, profile, breakdowns)
