"""A city's signals as a parallel environment of PettingZoo, for the libraries that take one."""

import argparse
import shlex
import sys

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from lab.sim.environment import Environment
from lab.sim.options import add_scenario, scenario_of
from lab.train.rewards import Rewards
from lab.train.traffic import TRAINING_SEED
from models.networks.network import network_of
from models.policy.inputs import InputLayout


class City(ParallelEnv):
    """Each junction is an agent, with the observation and the reward of ``python -m lab.train``.

    Observations have zeros up to the longest. The end of the scenario truncates the episode.

    Args:
        options: of ``python -m lab.train``: ``--network``, ``--sumocfg`` and the like.
        team_share: weight of the other junctions' rewards in each junction's own.
    """

    def __init__(self, options: str, team_share: float = 0.0) -> None:
        parser = argparse.ArgumentParser(prog="city_v0")
        add_scenario(parser)
        self.metadata = {"name": "city_v0", "render_modes": []}
        self.render_mode = None
        self._signals = Environment(scenario_of(parser.parse_args(shlex.split(options))))
        self._team_share = team_share
        network = network_of(self._signals.scenario.network)
        self._layout, self._size = InputLayout(network), network.max_obs
        self.possible_agents = list(network.ids)
        self.agents: list[str] = []
        seen = spaces.Box(0, 1, (self._size,), np.float32)
        self.observation_spaces = dict.fromkeys(network.ids, seen)
        self.action_spaces = {
            name: spaces.Discrete(each.n_phases) for name, each in network.junctions.items()
        }
        self._rng = np.random.default_rng(0)

    def observation_space(self, agent: str) -> spaces.Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict | None = None):
        """Start the scenario anew, with the next seed of training that the last seed draws."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        observed = self._signals.reset(TRAINING_SEED + int(self._rng.integers(1_000_000)))
        self._rewards = Rewards(self._signals, self._team_share)
        self.agents = list(self.possible_agents)
        return self._padded(observed), {name: {} for name in self.agents}

    def step(self, actions: dict[str, int]):
        """Request a phase of each junction, and let the time of a decision pass."""
        observed = self._signals.step({name: int(each) for name, each in actions.items()})
        rewards = self._rewards.look()
        names, over = self.agents, self._signals.is_over
        if over:
            self.agents = []
        return (
            self._padded(observed),
            dict(zip(names, map(float, rewards), strict=True)),
            dict.fromkeys(names, False),
            dict.fromkeys(names, over),
            {name: {} for name in names},
        )

    def close(self) -> None:
        self._signals.close()

    def _padded(self, observed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        rows = self._layout.encode_all(observed)[:, : self._size]
        return dict(zip(self.possible_agents, rows, strict=True))


parallel_env = City  # the name that EPyMARL looks for


def main(options: str) -> None:
    """Train PPO of Stable-Baselines3, one network for all signals, for an hour of traffic."""
    import supersuit
    from stable_baselines3 import PPO

    env = supersuit.agent_indicator_v0(supersuit.pad_action_space_v0(City(options)))
    env = supersuit.pettingzoo_env_to_vec_env_v1(env)
    env = supersuit.concat_vec_envs_v1(env, 1, base_class="stable_baselines3")
    model = PPO("MlpPolicy", env, n_steps=120, learning_rate=2.5e-4, verbose=1)
    model.learn(360 * env.num_envs)
    model.save("city")


if __name__ == "__main__":
    main(shlex.join(sys.argv[1:]))
