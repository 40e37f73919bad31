"""The peer of the scoreboard sees what our policies see, is rewarded as RESCO's, and learns."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")
pytest.importorskip(
    "sb3_contrib", reason="Stable-Baselines3 is not installed: examples/stable_baselines3/README.md"
)

import libsumo

from examples.stable_baselines3.learner import MODEL, drive, hours_of, read_model, train
from examples.stable_baselines3.signals import SignalsVecEnv
from lab.sim.environment import Environment
from lab.sim.metrics import Metrics
from models.networks.network import network_of
from models.policy.inputs import InputLayout
from tests.sim.towns import Town


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    return Town(tmp_path_factory.mktemp("town")).scenario


def test_it_sees_the_input_of_the_policies_that_are_served(scenario):
    network = network_of(scenario.network)
    environment = SignalsVecEnv(scenario, 7, lambda metrics: None)
    seen = environment.reset()
    masks = np.stack(environment.env_method("action_masks"))
    environment.close()
    with Environment(scenario) as city:
        observations = city.reset(7)
    assert (seen == InputLayout(network).encode_all(observations)).all()
    assert (masks == ~network.unavailable).all()


def test_its_reward_is_the_waiting_on_the_lanes_of_each_signal(scenario):
    environment = SignalsVecEnv(scenario, 7, lambda metrics: None)
    environment.reset()
    for _ in range(12):
        _, rewards, _, _ = environment.step(np.zeros(environment.num_envs, np.int64))
    waited = [
        sum(libsumo.lane.getWaitingTime(lane.id) for lane in junction.lanes)
        for junction in scenario.network.junctions
    ]
    environment.close()
    assert max(waited) > 0
    assert rewards == pytest.approx([-min(4, seconds / 224) for seconds in waited], rel=1e-5)


def test_the_end_of_a_run_is_no_end_of_the_traffic_and_the_next_has_another_seed(scenario):
    ended: list[Metrics] = []
    environment = SignalsVecEnv(scenario, 7, ended.append)
    first = environment.reset()
    actions = np.zeros(environment.num_envs, np.int64)
    for _ in range(60):
        seen, _, dones, infos = environment.step(actions)
    environment.close()
    assert dones.all()
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert (infos[0]["terminal_observation"] != seen[0]).any()
    assert (seen == first).all()
    assert [metrics.demanded for metrics in ended] == [180]


def test_training_is_kept_goes_on_where_it_was_and_drives(scenario, tmp_path):
    hours: list[int] = []
    path = train(scenario, 1, tmp_path, lambda hour, metrics: hours.append(hour))
    model = read_model(path)
    assert path == tmp_path / MODEL
    assert hours_of(model, scenario) == pytest.approx(1024 / 360)
    train(scenario, 18, tmp_path, lambda hour, metrics: hours.append(hour))
    assert read_model(path).num_timesteps == 2 * model.num_timesteps
    assert hours == sorted(hours)
    metrics = drive(model, scenario, 1)
    assert metrics.demanded == 180
    assert metrics == drive(model, scenario, 1)
