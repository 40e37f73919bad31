"""The shipped policy is worth serving: it beats the fixed-time plan in a rush hour."""

from __future__ import annotations

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.policy.form import SHIPPED_POLICY
from models.simulation.controllers import PolicyController
from models.simulation.demand import HOUR_S
from models.simulation.environment import Scenario
from models.simulation.episode import run_episode
from models.simulation.fixed_time import FixedTime
from models.simulation.road_network import read_network


@pytest.mark.parametrize("hour", [7.5, 17])
def test_policy_loses_and_waits_less_than_fixed_time(hour: float) -> None:
    network = read_network()
    scenario = Scenario(begin_s=int(hour * HOUR_S), duration_s=900)
    policy = run_episode(PolicyController.from_file(SHIPPED_POLICY), scenario, 77, network)
    fixed = run_episode(FixedTime(network, scenario), scenario, 77, network)
    assert policy.demanded == fixed.demanded
    assert policy.time_loss_s < 0.9 * fixed.time_loss_s
    assert policy.waiting_s < 0.9 * fixed.waiting_s
