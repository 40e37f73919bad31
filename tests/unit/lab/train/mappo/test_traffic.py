"""Training meets every level of traffic and every fault, and never the vehicles of a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.evaluate.cases import LEVELS, TEST_SEEDS
from lab.sim.daily_demand import DailyDemand
from lab.sim.scenario import RouteFiles, Scenario
from lab.train.design_plan import PLAN_SEEDS
from lab.train.forecasts.days import draw_day
from lab.train.mappo import rollout
from lab.train.mappo.config import Config
from lab.train.mappo.networks import make_policy
from lab.train.mappo.traffic import (
    TRAINING_SEED,
    VALIDATION_SEED,
    DrawnHours,
    Mix,
    OneScenario,
    Task,
    draw_hour,
    with_faults,
)
from lab.train.mappo.trainer import Trainer
from lab.train.signals import Reward
from models.networks.shipped import NET_FILE, SHIPPED

CONFIG = Config(episodes=4, repeats=2)


def demand_of(scenario: Scenario) -> DailyDemand:
    assert isinstance(scenario.demand, DailyDemand)
    return scenario.demand


def level_of(scenario: Scenario) -> float:
    demand = demand_of(scenario)
    return demand.scale * demand.course.at((scenario.begin_s + scenario.end_s) / 2)[0]


def draw(progress: float, mix: Mix = Mix()) -> list[Scenario]:  # noqa: B008 - frozen
    rng = np.random.default_rng(1)
    return [draw_hour(rng, progress, mix).scenario for _ in range(400)]


@pytest.fixture
def city(tmp_path: Path) -> OneScenario:
    (tmp_path / "town.rou.xml").write_text("<routes/>")
    assert SHIPPED.file is not None
    routes = RouteFiles((tmp_path / "town.rou.xml",))
    return OneScenario(Scenario(SHIPPED.file, NET_FILE, routes, 0, 3600), n_validation=100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("begin_s", 600), ("end_s", 7200), ("decision_s", 5), ("program", "night")),
        *(("yellow_s", 4), ("all_red_s", 2), ("min_green_s", 9), ("detectors", True)),
        *(("cyclic", True), ("counts", "all"), ("bus_weight", 5.0)),
    ],
)
def test_a_run_in_a_city_must_be_continued_with_the_same_rules(
    city: OneScenario, name: str, value: object
) -> None:
    other = replace(city, scenario=replace(city.scenario, **{name: value}))  # type: ignore[arg-type]
    assert other.settings == city.settings | {name: value}


def test_a_run_in_a_city_must_be_continued_with_the_same_files(city: OneScenario) -> None:
    before, (routes,) = city.settings["files"], city.scenario.demand.files
    assert replace(city).settings["files"] == before
    routes.write_text("<routes> </routes>")
    assert replace(city).settings["files"] != before


@pytest.mark.parametrize("kind", ["city", "hours"])
def test_a_run_must_be_continued_with_the_same_seeds_of_validation(
    city: OneScenario, kind: str
) -> None:
    traffic = city if kind == "city" else DrawnHours()
    assert replace(traffic, n_validation=9).settings == traffic.settings | {"n_validation": 9}


def test_seeds_of_test_validation_plan_and_training_are_apart(city: OneScenario) -> None:
    assert len(TEST_SEEDS) >= 20
    for traffic in (city, DrawnHours()):
        seeds = [task.seed for task in traffic.validation()]
        assert TEST_SEEDS.stop < min(seeds) == VALIDATION_SEED <= max(seeds) < PLAN_SEEDS.start
        assert [task.seed for task in traffic.tasks(CONFIG, 0)] == [
            TRAINING_SEED + each for each in (0, 0, 1, 1)
        ]
        assert [task.repeat for task in traffic.tasks(CONFIG, 0)] == [0, 1, 0, 1]
        assert traffic.tasks(CONFIG, 1)[0].seed == TRAINING_SEED + 2
    assert PLAN_SEEDS.stop < TRAINING_SEED
    assert draw_day(0).seed >= 1_000_000  # where the days of the forecasts begin


def test_levels_rise() -> None:
    low, medium, rush, over, _ = (level_of(make(1)) for make in LEVELS.values())
    assert low < 0.4 < medium < 0.7 < rush <= 1 < over


def test_an_incident_closes_a_lane_somewhere_for_every_seed() -> None:
    *_, incident = LEVELS.values()
    scenarios = [incident(seed) for seed in TEST_SEEDS]
    assert all(len(each.elements) == 1 for each in scenarios)
    assert len({each.elements for each in scenarios}) > 5
    assert incident(1) == incident(1)


def test_training_ends_with_every_level_and_breakdowns() -> None:
    scenarios = draw(progress=1)
    levels = np.array([level_of(scenario) for scenario in scenarios])
    for low, high in [(0, 0.4), (0.4, 0.75), (0.75, 1.0), (1.05, 1.3)]:
        assert ((low < levels) & (levels < high)).mean() > 0.1
    assert 0.1 < np.mean([bool(scenario.elements) for scenario in scenarios]) < 0.3


def test_training_begins_without_the_hardest() -> None:
    scenarios = draw(progress=0)
    assert max(level_of(scenario) for scenario in scenarios) <= 1.1
    assert not any(scenario.elements for scenario in scenarios)


def test_training_has_the_mix_that_its_options_ask_for() -> None:
    medium = draw(progress=1, mix=Mix(levels="0,3,0,1", breakdowns=0.0))
    levels = np.array([level_of(scenario) for scenario in medium])
    assert 0.4 < levels.min() < 0.75 < 1.05 < levels.max()
    assert 0.7 < (levels < 0.75).mean() < 0.8
    assert not any(scenario.elements for scenario in medium)
    halfway = draw(progress=0.5, mix=Mix(levels="0,3,0,1", breakdowns=0.0))
    assert halfway == draw(progress=0.5, mix=Mix(levels="0,75,0,25", breakdowns=0.0))
    assert all(each.elements for each in draw(progress=1, mix=Mix(breakdowns=1.0)))
    low = DrawnHours(Mix(levels="1,0,0,0", breakdowns=1.0, duration_s=600)).tasks(CONFIG, 1)
    assert all(20 * 3600 <= task.scenario.begin_s <= 22 * 3600 for task in low)
    assert {task.scenario.end_s - task.scenario.begin_s for task in low} == {600}


@pytest.mark.parametrize("guarded", [True, False])
def test_all_hours_are_behind_the_safety_layer_or_none(guarded: bool) -> None:
    hours = DrawnHours(Mix(faults=0.5), guarded=guarded)
    assert {task.scenario.guarded for task in hours.tasks(CONFIG, 1)} == {guarded}
    assert {task.scenario.guarded for task in hours.validation()} == {guarded}
    assert hours.settings["safety"] is guarded


def test_faults_are_drawn_as_often_as_the_share_says() -> None:
    rng = np.random.default_rng(0)
    hour = draw_hour(rng, 0, Mix())
    drawn = [with_faults(hour, rng, 0.25) for _ in range(1000)]
    reads = [task.scenario.detector_reads for task in drawn]
    assert np.mean([each is not None for each in reads]) == pytest.approx(0.25, abs=0.05)
    assert np.mean([task.lost > 0 for task in drawn]) == pytest.approx(0.25, abs=0.05)
    unusual = [demand_of(task.scenario).unusual is not None for task in drawn]
    assert np.mean(unusual) == pytest.approx(0.25, abs=0.05)
    broken = [each for each in reads if each is not None]
    assert min(broken) == 0.0
    assert 0.1 < np.mean(np.array(broken) > 0) < 0.9
    assert all(0 <= value <= 1 for value in broken)
    assert all(with_faults(hour, rng, 0.0) == hour for _ in range(20))


def test_faults_leave_the_traffic_what_it_is_without_them() -> None:
    usual, faulty = (DrawnHours(Mix(faults=share)) for share in (0.0, 1.0))
    for one, other in zip(usual.tasks(CONFIG, 2), faulty.tasks(CONFIG, 2), strict=True):
        assert other.seed == one.seed
        assert other.scenario.begin_s == one.scenario.begin_s
        assert (one.scenario.detector_reads, one.lost) == (None, 0.0)
        assert demand_of(one.scenario).unusual is None
        assert demand_of(other.scenario).unusual is not None
        assert other.scenario.detector_reads is not None
        assert other.lost > 0
    assert len(usual.validation()) == 10
    assert len(faulty.validation()) == 18


class FullLanes:
    """Signals that are over after some steps; keeps the actions that arrive."""

    arrived: Sequence[dict[str, int]] = ()

    def __init__(self, scenario: Scenario, reward: Reward, *weights: float) -> None:
        assert reward in get_args(Reward)
        self.steps: list[dict[str, int]] = []

    @property
    def is_over(self) -> bool:
        return len(self.steps) >= 100

    @property
    def choices(self) -> dict[str, bool]:
        return dict.fromkeys(SHIPPED.ids, True)

    def reset(self, seed: int) -> dict[str, np.ndarray]:
        return self._observe()

    def step(self, actions: dict[str, int]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        self.steps.append(actions)
        return self._observe(), np.zeros(SHIPPED.n_agents)

    def state(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def metrics(self) -> None: ...

    def close(self) -> None:
        FullLanes.arrived = self.steps

    def _observe(self) -> dict[str, np.ndarray]:
        return {each.id: np.ones(each.obs_size, np.float32) for each in SHIPPED.junctions.values()}


def test_red_arrives_in_place_of_the_answers_that_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollout, "Signals", FullLanes)
    traffic = DrawnHours()
    policy = make_policy(Trainer(Config(), traffic).weights(), SHIPPED)
    reds = {}
    for lost in (0.0, 0.5, 1.0):
        task = Task(traffic.example, 3, lost=lost)
        episode = rollout.drive_episode(traffic, Config(), policy, task)
        arrived = [list(actions.values()) for actions in FullLanes.arrived]
        kept = episode.actions == np.array(arrived)
        assert (np.array(arrived)[~kept] == 0).all()
        reds[lost] = np.mean(kept[episode.actions > 0])
    assert reds[0.0] == 1
    assert reds[0.5] == pytest.approx(0.5, abs=0.1)
    assert reds[1.0] == 0
