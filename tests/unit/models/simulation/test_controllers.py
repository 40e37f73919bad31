"""Max pressure serves the largest queue; the policy controller carries state and masks actions."""

from __future__ import annotations

import numpy as np
import torch

from models.networks.shipped import JUNCTIONS
from models.policy.network import RecurrentPolicy
from models.simulation.controllers import (
    KeepPhase,
    MaxPressure,
    PolicyController,
    RandomPhases,
)
from models.simulation.observation import Observation, encode_observation
from models.simulation.road_network import read_network


def observe(queues: dict[str, list[float]] | None = None) -> dict[str, Observation]:
    return {
        junction.id: encode_observation(
            0,
            junction.n_phases,
            True,
            (queues or {}).get(junction.id, [0] * junction.n_lanes),
            [10] * junction.n_lanes,
        )
        for junction in JUNCTIONS.values()
    }


def test_max_pressure_turns_to_the_side_street_when_only_it_waits() -> None:
    controller = MaxPressure(read_network())
    actions = controller.act(observe({"300839359": [0, 0, 0, 0, 8]}))
    assert actions == {**dict.fromkeys(JUNCTIONS, 0), "300839359": 1}


def test_max_pressure_keeps_the_phase_for_a_small_difference() -> None:
    controller = MaxPressure(read_network(), hysteresis=100)
    assert set(controller.act(observe({"300839359": [0, 0, 0, 0, 8]})).values()) == {0}


def test_policy_controller_never_takes_an_unavailable_action() -> None:
    policy = RecurrentPolicy()
    with torch.no_grad():
        policy.fc2.weight.zero_()
        policy.fc2.bias.copy_(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    actions = PolicyController(policy).act(observe())
    assert actions == {j.id: j.n_phases - 1 for j in JUNCTIONS.values()}


def test_reset_brings_the_policy_controller_back_to_its_start() -> None:
    torch.manual_seed(0)
    controller = PolicyController(RecurrentPolicy())
    rng = np.random.default_rng(0)
    stretch = [
        observe({j.id: rng.integers(0, 10, j.n_lanes).tolist() for j in JUNCTIONS.values()})
        for _ in range(30)
    ]
    first = [controller.act(observations) for observations in stretch]
    controller.reset()
    assert [controller.act(observations) for observations in stretch] == first


def test_keep_phase_asks_for_nothing() -> None:
    assert KeepPhase().act(observe()) == {}


def test_random_phases_are_all_drawn_and_repeat_after_a_reset() -> None:
    controller = RandomPhases(seed=1)
    first = [controller.act(observe()) for _ in range(100)]
    for junction in JUNCTIONS.values():
        assert {actions[junction.id] for actions in first} == set(range(junction.n_phases))
    controller.reset()
    assert [controller.act(observe()) for _ in range(100)] == first
