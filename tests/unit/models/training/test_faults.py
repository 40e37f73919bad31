"""Faults of an episode: what is seen and what arrives of it, and how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.networks.shipped import JUNCTIONS
from models.simulation.metrics import Metrics
from models.simulation.observation import Observation
from models.training.faults import NONE, Faults, draw_faults
from models.training.mappo.config import Config
from models.training.mappo.faulty_signals import FaultySignals
from models.training.mappo.shipped_problem import ShippedProblem
from models.training.signals_env import AgentObservation, Floats

TRUE = 0.75  # what every detector would tell
ACTIONS = dict.fromkeys(JUNCTIONS, 1)
SEED = 3


class FullLanes:
    """Signals all of whose lanes are always equally full; keeps the actions that arrive."""

    def __init__(self) -> None:
        self.agents = list(JUNCTIONS)
        self.arrived: list[dict[str, int]] = []

    def reset(self, seed: int) -> tuple[dict[str, AgentObservation], Any]:
        return self._observed(), {}

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[dict[str, AgentObservation], dict[str, float], Any, Any, Any]:
        self.arrived.append(dict(actions))
        return self._observed(), dict.fromkeys(JUNCTIONS, -1.0), {}, {}, {}

    def state(self) -> Floats:
        return np.full(1, TRUE, np.float32)

    def metrics(self) -> Metrics:
        raise NotImplementedError

    def close(self) -> None: ...

    def _observed(self) -> dict[str, AgentObservation]:
        return {
            each.id: {"observation": np.full(each.obs_size, TRUE, np.float32)}
            for each in JUNCTIONS.values()
        }


class Alike:
    """A controller of which every answer is 1; keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[Mapping[str, Observation]] = []

    def reset(self) -> None: ...

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        self.seen.append(observations)
        return dict(ACTIONS)


def observed(signals: FaultySignals, steps: int) -> list[dict[str, AgentObservation]]:
    return [signals.reset(SEED)[0], *(signals.step(ACTIONS)[0] for _ in range(steps))]


def test_the_policy_sees_in_training_what_a_controller_sees_in_the_evaluation() -> None:
    controller = Alike()
    full = {name: each["observation"] for name, each in FullLanes().reset(SEED)[0].items()}
    Faults(reads=0.25).on(controller, SEED).act(full)
    for seen in observed(FaultySignals(FullLanes(), Faults(reads=0.25)), 2):
        for name, each in seen.items():
            assert (each["observation"] == controller.seen[0][name]).all()
            assert np.flatnonzero(each["observation"] != TRUE).size == 1


def test_what_the_critic_sees_and_the_rewards_stay_true() -> None:
    signals = FaultySignals(FullLanes(), Faults(reads=0.25, lost=0.5))
    signals.reset(SEED)
    assert set(signals.step(ACTIONS)[1].values()) == {-1.0}
    assert signals.state() == [TRUE]


@pytest.mark.parametrize("lost", [0.0, 0.1, 1.0])
def test_red_arrives_in_place_of_the_share_of_answers_that_is_lost(lost: float) -> None:
    signals = FullLanes()
    observed(FaultySignals(signals, Faults(lost=lost)), 400)
    arrived = [action for actions in signals.arrived for action in actions.values()]
    assert 1 - np.mean(arrived) == pytest.approx(lost, abs=0.02)


def test_repeats_of_one_traffic_have_the_same_faults() -> None:
    runs = [FullLanes(), FullLanes()]
    for signals in runs:
        observed(FaultySignals(signals, Faults(lost=0.5)), 20)
    assert runs[0].arrived == runs[1].arrived


def test_faults_are_drawn_as_often_as_is_said() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_faults(rng, 0.25) for _ in range(4000)]
    assert np.mean([each.reads is not None for each in drawn]) == pytest.approx(0.25, abs=0.03)
    assert np.mean([each.lost > 0 for each in drawn]) == pytest.approx(0.25, abs=0.03)
    read = [each.reads for each in drawn if each.reads is not None]
    assert min(read) == 0.0
    assert 0.1 < np.mean(np.array(read) > 0) < 0.9
    assert all(0 <= value <= 1 for value in read)
    assert {draw_faults(rng, 0.0) for _ in range(20)} == {NONE}


def test_training_without_faults_has_the_traffic_that_it_had_and_no_other() -> None:
    config = Config(episodes=8, repeats=2)
    problem = ShippedProblem()
    usual, faulty = (
        problem.tasks(each, 2) for each in (config, Config(episodes=8, repeats=2, faults=1.0))
    )
    assert all(task.scenario.faults == NONE for task in usual)
    assert all(task.scenario.scenario.strange is None for task in usual)
    for one, other in zip(usual, faulty, strict=True):
        assert other.seed == one.seed
        assert other.scenario.scenario.begin_s == one.scenario.scenario.begin_s
        assert other.scenario.scenario.strange is not None
        assert other.scenario.faults.reads is not None
        assert other.scenario.faults.lost > 0
    assert len(problem.validation(config)) == 10
    assert len(problem.validation(Config(faults=0.1))) == 18


def test_training_has_the_traffic_that_its_options_ask_for() -> None:
    mix = Config(levels="1,0,0,0", breakdowns=1.0, repeats=1)
    scenarios = [task.scenario.scenario for task in ShippedProblem().tasks(mix, 1)]
    assert all(20 * 3600 <= scenario.begin_s <= 22 * 3600 for scenario in scenarios)
    assert all(scenario.breakdowns for scenario in scenarios)
