"""A city's signals as one Gymnasium environment, as EPyMARL's wrapper ``gymma`` drives them.

Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative
Tasks", 2021; github.com/uoe-agents/epymarl, ``src/envs/gymma.py``. Its ``env_args.key`` is
``examples.epymarl.gymma:city-v0``: importing this module registers the name.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from lab.sim.environment import Observations
from lab.sim.options import add_scenario, scenario_of
from lab.sim.scenario import InvalidScenarioError, Scenario
from lab.train.mappo.traffic import TRAINING_SEED
from lab.train.signals import Reward, Signals
from models.policy.inputs import InputLayout

SEEDS = 1_000_000  # from TRAINING_SEED on; evaluations have none of them

Padded = tuple[NDArray[np.float32], ...]


class CityGymEnv(gymnasium.Env[Padded, Any]):
    """Observations, actions and rewards are tuples in the order of the agents' indices.

    An observation is what the service gets, padded with zeros to the longest. A junction's action
    space is as large as its number of phases, of which ``gymma`` makes the mask. The end of the
    scenario truncates the episode: traffic has no natural end, which ``episode_limit`` reports to
    EPyMARL's learners. The last step also has ``delay_s``, seconds per vehicle, for its log.

    Args:
        reward, team_share: as for :class:`~lab.train.signals.Signals`; the own
            rewards alone by default, as EPyMARL sums them up.
        options: ``network``, ``sumocfg`` and the others of ``python -m lab.train``
            that say what is simulated, with ``_`` for ``-``.

    Raises:
        InvalidNetworkError, InvalidScenarioError: a file or an option cannot be used.
        ValueError: an unknown reward.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's

    def __init__(
        self, reward: Reward = "time_loss", team_share: float = 0.0, **options: Any
    ) -> None:
        if reward not in get_args(Reward):
            raise ValueError(f"reward {reward!r} is not one of {', '.join(get_args(Reward))}")
        self._signals = Signals(_scenario(options), reward, team_share)
        self._network = self._signals.network
        self._layout = InputLayout(self._network)
        self.n_agents = self._network.n_agents
        seen = spaces.Box(0, 1, (self._network.max_obs,), np.float32)
        self.observation_space = spaces.Tuple([seen] * self.n_agents)
        phases = [each.n_phases for each in self._network.junctions.values()]
        self.action_space = spaces.Tuple([spaces.Discrete(each) for each in phases])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Padded, dict[str, Any]]:
        """Start the scenario anew; without a seed, with the next one that the last seed draws."""
        super().reset(seed=seed)
        observations = self._signals.reset(TRAINING_SEED + int(self.np_random.integers(SEEDS)))
        return self._padded(observations), {}

    def step(  # type: ignore[override]  # Gymnasium knows one reward only
        self, actions: Sequence[int]
    ) -> tuple[Padded, list[float], bool, bool, dict[str, Any]]:
        """Request a phase of each junction and let the time of a decision pass.

        Raises:
            ValueError: an action that a junction does not have, or more or fewer than junctions.
        """
        requested = dict(zip(self._network.ids, map(int, actions), strict=True))
        observations, rewards = self._signals.step(requested)
        over = self._signals.is_over
        info: dict[str, Any] = {}
        if over:
            info = {"episode_limit": True, "delay_s": self._signals.metrics().time_loss_s}
        return self._padded(observations), rewards.tolist(), False, over, info

    def close(self) -> None:
        self._signals.close()

    def _padded(self, observations: Observations) -> Padded:
        return tuple(self._layout.encode_all(observations)[:, : self._network.max_obs])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidScenarioError(message)


def _scenario(options: dict[str, Any]) -> Scenario:
    """Read options given by name as a command line would have them."""
    parser = _Parser(allow_abbrev=False)
    add_scenario(parser)
    words: list[str] = []
    for name, value in options.items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return scenario_of(parser.parse_args(words))


gymnasium.register("city-v0", CityGymEnv, disable_env_checker=True)  # which knows one agent only
