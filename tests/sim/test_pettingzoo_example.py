"""examples/pettingzoo keeps to PettingZoo's parallel interface, which need not be installed."""

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lab.sim.scenario import DECISION_S
from models.networks.network import network_of
from tests.sim.towns import Town

END_S = 120


@pytest.fixture
def city(tmp_path, monkeypatch):
    try:
        importlib.import_module("pettingzoo")
    except ModuleNotFoundError:
        monkeypatch.setitem(sys.modules, "pettingzoo", SimpleNamespace(ParallelEnv=object))
    module: Any = importlib.import_module("examples.pettingzoo.city_v0")
    town = Town(tmp_path)
    files = f"--network {town.network} --net {town.net} --routes {town.routes}"
    made = module.parallel_env(f"{files} --end {END_S} --counts all")
    yield made, network_of(town.scenario.network)
    made.close()


def test_an_episode_has_the_spaces_of_the_network_and_is_truncated_at_its_end(city):
    env, network = city
    observed, _ = env.reset(seed=1)
    assert env.agents == env.possible_agents == list(network.ids)
    total, steps, over = 0.0, 0, False
    while not over:
        assert all(env.observation_space(name).contains(each) for name, each in observed.items())
        actions = {name: steps % env.action_space(name).n for name in env.agents}
        observed, rewards, terminated, truncated, _ = env.step(actions)
        total += sum(rewards.values())
        steps, over = steps + 1, all(truncated.values())
        assert not any(terminated.values())
    assert steps == END_S // DECISION_S
    assert total < 0
    assert env.agents == []
    assert {env.action_space(name).n for name in network.ids} == {network.n_actions}


def test_the_same_seed_starts_the_same_episodes_and_another_does_not(city):
    env, network = city

    def drive(seed: int | None) -> list[float]:
        env.reset(seed=seed)
        steps = [env.step(dict.fromkeys(network.ids, 0)) for _ in range(10)]
        return [reward for _, rewards, *_ in steps for reward in rewards.values()]

    one, other = drive(1), drive(None)
    assert drive(1) == one != other
