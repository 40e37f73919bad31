"""Outages: which answers are lost, what decides instead, and how a policy comes back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.networks.shipped import JUNCTIONS
from models.signals.clock_plan import read_plan
from models.simulation.observation import Observation
from models.simulation.outages import AlwaysRed, ByClock, WithLosses, WithOutage

OBSERVATIONS = {each: np.zeros(1, np.float32) for each in JUNCTIONS}


class Counting:
    """Answers 1, and counts its steps and resets."""

    def __init__(self) -> None:
        self.steps = self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        self.steps += 1
        return dict.fromkeys(observations, 1)


def test_answers_are_lost_as_often_as_said() -> None:
    controller = WithLosses(Counting(), AlwaysRed(), share=0.1, seed=1)
    actions = [action for _ in range(400) for action in controller.act(OBSERVATIONS).values()]
    assert 0.07 < actions.count(0) / len(actions) < 0.13
    lost = WithLosses(Counting(), AlwaysRed(), share=1.0, seed=1).act(OBSERVATIONS)
    assert set(lost.values()) == {0}


def test_a_dead_policy_makes_no_step_and_begins_anew() -> None:
    policy = Counting()
    controller = WithOutage(policy, AlwaysRed(), begin_s=10, end_s=25)
    resets = policy.resets
    actions = [controller.act(OBSERVATIONS)["300839359"] for _ in range(8)]
    assert actions == [1, 1, 0, 0, 0, 1, 1, 1]
    assert policy.steps == 5
    assert policy.resets == resets + 1


def test_the_plan_goes_on_by_the_clock_whether_it_is_asked_or_not() -> None:
    plan, begin_s = read_plan(), 27_000
    controller = WithOutage(Counting(), ByClock(plan, begin_s), begin_s=50, end_s=100)
    actions = [controller.act(OBSERVATIONS) for _ in range(20)]
    for number in range(10, 20):
        second = begin_s + 5 * number
        assert actions[number] == {each: plan.at(each, second).phase for each in JUNCTIONS}
