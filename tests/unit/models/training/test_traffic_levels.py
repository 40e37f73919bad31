"""Training meets every level of traffic, and never the vehicles of a test."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.simulation.environment import Scenario
from models.training.forecasts.days import draw_day
from models.training.traffic_levels import (
    IMITATION_SEED,
    PLAN_SEEDS,
    PROGRESS_SEEDS,
    TEST_LEVELS,
    TEST_SEEDS,
    TRAINING_SEED,
    USUAL_MIX,
    VALIDATION_SEEDS,
    TrafficMix,
    draw_training_scenario,
)


def demand_level(scenario: Scenario) -> float:
    middle = scenario.begin_s + scenario.duration_s / 2
    return scenario.demand_scale * scenario.profile.at(middle)[0]


def draw(progress: float, mix: TrafficMix = USUAL_MIX) -> list[Scenario]:
    rng = np.random.default_rng(1)
    return [draw_training_scenario(rng, progress, mix=mix) for _ in range(400)]


def test_seeds_of_test_validation_and_training_are_apart() -> None:
    assert TEST_SEEDS.start == PROGRESS_SEEDS.start
    assert TEST_SEEDS.stop <= PROGRESS_SEEDS.stop <= VALIDATION_SEEDS.start
    assert VALIDATION_SEEDS.stop <= PLAN_SEEDS.start < PLAN_SEEDS.stop <= IMITATION_SEED
    assert IMITATION_SEED < IMITATION_SEED + 10_000 <= TRAINING_SEED
    assert draw_day(0).seed >= 1_000_000  # where the days of the forecasts begin


def test_test_has_at_least_twenty_seeds() -> None:
    assert len(TEST_SEEDS) >= 20


def test_levels_rise() -> None:
    low, medium, rush, over, _ = (demand_level(make(1)) for make in TEST_LEVELS.values())
    assert low < 0.4 < medium < 0.7 < rush <= 1 < over


def test_incident_closes_a_lane_for_a_good_part_of_the_hour() -> None:
    *_, incident = TEST_LEVELS.values()
    places = set()
    for seed in TEST_SEEDS:
        scenario = incident(seed)
        (breakdown,) = scenario.breakdowns
        places.add((breakdown.edge, breakdown.lane))
        assert scenario.begin_s < breakdown.depart_s
        assert breakdown.depart_s + breakdown.duration_s < scenario.end_s
        assert incident(seed) == scenario
    assert len(places) > 5


def test_training_ends_with_every_level_and_breakdowns() -> None:
    scenarios = draw(progress=1)
    levels = np.array([demand_level(scenario) for scenario in scenarios])
    for low, high in [(0, 0.4), (0.4, 0.75), (0.75, 1.0), (1.05, 1.3)]:
        assert ((low < levels) & (levels < high)).mean() > 0.1
    assert 0.1 < np.mean([bool(scenario.breakdowns) for scenario in scenarios]) < 0.3


def test_training_begins_without_the_hardest() -> None:
    scenarios = draw(progress=0)
    assert max(demand_level(scenario) for scenario in scenarios) <= 1.1
    assert not any(scenario.breakdowns for scenario in scenarios)


def test_training_has_the_mix_that_is_asked_for() -> None:
    medium = draw(progress=1, mix=TrafficMix.parse("0,3,0,1", breakdowns=0.0))
    levels = np.array([demand_level(scenario) for scenario in medium])
    assert 0.4 < levels.min() < 0.75 < 1.05 < levels.max()
    assert 0.7 < (levels < 0.75).mean() < 0.8
    assert not any(scenario.breakdowns for scenario in medium)
    halfway = draw(progress=0.5, mix=TrafficMix.parse("0,3,0,1", breakdowns=0.0))
    assert halfway == draw(progress=0.5, mix=TrafficMix.parse("0,75,0,25", breakdowns=0.0))
    assert all(each.breakdowns for each in draw(progress=1, mix=TrafficMix(breakdowns=1.0)))
