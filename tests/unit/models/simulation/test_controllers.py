"""Max pressure serves the largest queue; the policy controller carries state and masks actions."""

from __future__ import annotations

import numpy as np
import torch

from models.junctions import JUNCTIONS, MAX_OBS
from models.policy import RecurrentPolicy
from models.simulation.controllers import MaxPressure, PolicyController, policy_inputs
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


def test_policy_inputs_are_padded_and_name_the_agent() -> None:
    inputs = policy_inputs(observe())
    assert inputs.shape == (5, 24)
    np.testing.assert_array_equal(inputs[:, MAX_OBS:], np.eye(5))
    assert inputs[1, :3].tolist() == [1, 0, 1]
    assert not inputs[1, 3:MAX_OBS].any()


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
