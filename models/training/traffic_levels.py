"""The levels of traffic that a policy is trained and tested on, and seeds that keep them apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import numpy as np

from models.simulation.breakdown import draw_breakdown
from models.simulation.demand import HOUR_S
from models.simulation.environment import Scenario

# One seed draws the vehicles of one run. No range reaches into another, but that those of the
# test are the first of the progress's: what training has changed is less than peers differ by.
TEST_SEEDS = range(1, 21)
PROGRESS_SEEDS = range(1, 101)
VALIDATION_SEEDS = range(50_000, 50_002)
PLAN_SEEDS = range(60_000, 60_003)
IMITATION_SEED = 100_000
TRAINING_SEED = 200_000

MORNING_RUSH_S = 15 * HOUR_S // 2
EVENING_RUSH_S = 17 * HOUR_S
BREAKDOWN_DURATION_S = (20 * 60, 40 * 60)


def with_breakdown(scenario: Scenario, rng: np.random.Generator) -> Scenario:
    """Return the scenario with a lane closed from within its first quarter of an hour."""
    begin = scenario.begin_s
    breakdown = draw_breakdown(rng, (begin + 300, begin + 900), BREAKDOWN_DURATION_S)
    return Scenario(begin, scenario.duration_s, scenario.demand_scale, breakdowns=(breakdown,))


# What a seed is tested in. The incident's place is drawn, so its scenario depends on the seed.
TEST_LEVELS: Mapping[str, Callable[[int], Scenario]] = {
    "low, 21:00": lambda seed: Scenario(21 * HOUR_S),
    "medium, 12:00": lambda seed: Scenario(12 * HOUR_S),
    "rush hour, 7:30": lambda seed: Scenario(MORNING_RUSH_S),
    "over-saturated, 7:30 and a quarter more": lambda seed: Scenario(
        MORNING_RUSH_S, demand_scale=1.25
    ),
    "incident, 17:00 and a closed lane": lambda seed: with_breakdown(
        Scenario(EVENING_RUSH_S), np.random.default_rng(seed)
    ),
}

# Share of the training episodes at each level when the curriculum begins.
FIRST_SHARES = {"low": 0.30, "medium": 0.40, "rush": 0.30, "over-saturated": 0.0}


class TrafficMix(NamedTuple):
    """What the training episodes are like once the curriculum is over.

    Attributes:
        shares: of the levels, in the order of FIRST_SHARES; they add up to 1.
        breakdowns: share of the episodes in which a lane is closed.
    """

    shares: tuple[float, ...] = (0.20, 0.25, 0.30, 0.25)
    breakdowns: float = 0.2

    @classmethod
    def parse(cls, shares: str, breakdowns: float) -> Self:
        """Read shares such as ``0.2,0.25,0.3,0.25``; they need not add up to 1.

        Raises:
            ValueError: they are not one share of each level, or none is above 0.
        """
        try:
            numbers = tuple(float(each) for each in shares.split(","))
        except ValueError:
            numbers = ()
        if len(numbers) != len(FIRST_SHARES) or not 0 < sum(numbers) < np.inf or min(numbers) < 0:
            levels = ", ".join(FIRST_SHARES)
            raise ValueError(f"levels {shares!r} are not shares, 0 or more, of {levels}")
        if not 0 <= breakdowns <= 1:
            raise ValueError(f"breakdowns {breakdowns} is not from 0 to 1")
        return cls(tuple(each / sum(numbers) for each in numbers), breakdowns)


USUAL_MIX = TrafficMix()


def draw_training_scenario(
    rng: np.random.Generator,
    progress: float,
    duration_s: int = HOUR_S,
    mix: TrafficMix = USUAL_MIX,
) -> Scenario:
    """Draw an hour; heavier traffic and breakdowns join in as progress goes from 0 to 1.

    Times of day and factors are drawn from ranges, so that the policy meets every mix of
    directions and no test scenario exactly.
    """
    start, end = np.array([list(FIRST_SHARES.values()), mix.shares])
    shares = start + min(1.0, progress) * (end - start)
    level = rng.choice(list(FIRST_SHARES), p=shares / shares.sum())
    if level == "low":
        begin_h, scale = rng.uniform(20, 22), rng.uniform(0.5, 1.3)
    elif level == "medium":
        begin_h, scale = rng.uniform(9, 14), rng.uniform(0.8, 1.2)
    else:
        begin_h = rng.uniform(6.75, 8) if rng.random() < 0.5 else rng.uniform(16, 17.75)
        scale = rng.uniform(0.85, 1.1) if level == "rush" else rng.uniform(1.1, 1.35)
    scenario = Scenario(int(begin_h * 60) * 60, duration_s, float(scale))
    if rng.random() < mix.breakdowns * min(1.0, progress):
        return with_breakdown(scenario, rng)
    return scenario
