"""Training meets every level of traffic, and never the vehicles of a test."""

from dataclasses import replace

import numpy as np
import pytest

from lab.evaluate.cases import LEVELS, TEST_SEEDS
from lab.sim.daily_demand import DailyDemand
from lab.sim.scenario import Scenario
from lab.train.forecasts.generate import draw_day
from lab.train.traffic import FURTHER_SEED, TRAINING_SEED, VALIDATION_SEED, DrawnHours


def demand_of(scenario: Scenario) -> DailyDemand:
    assert isinstance(scenario.demand, DailyDemand)
    return scenario.demand


def level_of(scenario: Scenario) -> float:
    demand = demand_of(scenario)
    return demand.scale * demand.course.at((scenario.begin_s + scenario.end_s) / 2)[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("begin_s", 600), ("end_s", 7200), ("decision_s", 8), ("program", "night")),
        *(("yellow_s", 4), ("all_red_s", 1), ("min_green_s", 9), ("detectors", True)),
        *(("cyclic", True), ("counts", "all"), ("bus_weight", 5.0)),
    ],
)
def test_a_run_in_a_city_must_be_continued_with_the_same_rules(city, name, value):
    other = replace(city, scenario=replace(city.scenario, **{name: value}))
    assert other.settings == city.settings | {name: value}


def test_a_run_must_be_continued_with_the_same_files_and_seeds_of_validation(city):
    before, (routes,) = city.settings["files"], city.scenario.demand.files
    for traffic in (city, DrawnHours()):
        other = replace(traffic, n_validation=9)
        assert other.settings == traffic.settings | {"n_validation": 9}
    routes.write_text("<routes> </routes>")
    assert replace(city).settings["files"] != before


def test_seeds_of_test_validation_and_training_are_apart(city):
    assert len(TEST_SEEDS) >= 20
    for traffic in (city, DrawnHours()):
        seeds = [task.seed for task in traffic.validation()]
        further = [task.seed for task in traffic.validation(FURTHER_SEED)]
        assert TEST_SEEDS.stop < min(seeds) == VALIDATION_SEED <= max(seeds) < min(further)
        assert max(further) < TRAINING_SEED
        drawn = [task.seed for number in range(2) for task in traffic.tasks(0, number, 2)]
        assert drawn == [TRAINING_SEED + each for each in range(4)]
    assert draw_day(0).seed >= 1_000_000  # where the days of the forecasts begin


def test_levels_rise():
    low, medium, rush, over, _ = (level_of(make(1)) for make in LEVELS.values())
    assert low < 0.4 < medium < 0.7 < rush <= 1 < over


def test_an_incident_closes_a_lane_somewhere_for_every_seed():
    *_, incident = LEVELS.values()
    scenarios = [incident(seed) for seed in TEST_SEEDS]
    assert all(len(each.elements) == 1 for each in scenarios)
    assert len({each.elements for each in scenarios}) > 5
    assert incident(1) == incident(1)


def test_training_meets_every_level_and_breakdowns():
    scenarios = [task.scenario for task in DrawnHours().tasks(1, 0, 400)]
    levels = np.array([level_of(scenario) for scenario in scenarios])
    for low, high in [(0, 0.4), (0.4, 0.75), (0.75, 1.0), (1.05, 1.3)]:
        assert ((low < levels) & (levels < high)).mean() > 0.1
    assert 0.1 < np.mean([bool(scenario.elements) for scenario in scenarios]) < 0.3


@pytest.mark.parametrize("guarded", [True, False])
def test_all_hours_are_behind_the_safety_layer_or_none_is(guarded):
    hours = DrawnHours(guarded=guarded)
    tasks = [*hours.tasks(0, 1, 2), *hours.validation()]
    assert {task.scenario.guarded for task in tasks} == {guarded}
    assert hours.settings["safety"] is guarded
