"""A city's signals as Stable-Baselines3 sees them: one environment each, over one simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import libsumo
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from lab.sim.environment import Environment
from lab.sim.metrics import Metrics
from lab.sim.observation import Observation
from lab.sim.scenario import Scenario
from models.networks.form import Lane
from models.networks.network import network_of
from models.policy.inputs import InputLayout

WAITING_S, WORST = 224.0, 4.0  # RESCO's wait_norm

Inputs = NDArray[np.float32]


class SignalsVecEnv(VecEnv):
    """All signals as one vectorised environment, so that they share their weights.

    Each sees the input of the policies that are served: its observation, padded to the longest, and
    its one-hot. Its reward is RESCO's: minus the seconds that the vehicles on its lanes have waited
    by now, divided by 224, at least -4.

    Args:
        first_seed: of the first hour; each hour takes the next.
        ended: called after each simulated hour.
    """

    def __init__(
        self, scenario: Scenario, first_seed: int, ended: Callable[[Metrics], None]
    ) -> None:
        self._environment = Environment(scenario)
        network = network_of(scenario.network)
        self._ids, self._layout = network.ids, InputLayout(network)
        self._available = ~network.unavailable
        lanes = {each.id: each.lanes for each in scenario.network.junctions}
        self._lanes = [lanes[each] for each in self._ids]
        self._seed, self._ended = first_seed, ended
        self._actions: NDArray[np.int64] = np.zeros(len(self._ids), np.int64)
        self.render_mode = None
        super().__init__(
            len(self._ids),
            spaces.Box(0, 1, (self._layout.width,), np.float32),
            spaces.Discrete(network.n_actions),
        )

    def reset(self) -> Inputs:
        observations = self._environment.reset(self._seed)
        self._seed += 1
        return self._encode(observations)

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[Inputs, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        actions = map(int, self._actions)
        inputs = self._encode(self._environment.step(dict(zip(self._ids, actions, strict=True))))
        rewards = self._rewards()
        over = self._environment.is_over
        infos: list[dict[str, Any]] = [{} for _ in self._ids]
        if over:
            for info, last in zip(infos, inputs, strict=True):
                info |= {"terminal_observation": last, "TimeLimit.truncated": True}
            self._ended(self._environment.metrics())
            inputs = self.reset()
        return inputs, rewards, np.full(len(self._ids), over), infos

    def close(self) -> None:
        self._environment.close()

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Answer maskable PPO's one question."""
        if method_name != "action_masks":
            raise AttributeError(method_name)
        return list(self._available)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "action_masks":
            return list(self._available)
        return [getattr(self, attr_name)] * len(self._ids)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(attr_name)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        return [False] * len(self._ids)

    def _encode(self, observations: Mapping[str, Observation]) -> Inputs:
        return self._layout.encode_all(observations)

    def _rewards(self) -> NDArray[np.float32]:
        return np.array([_reward(lanes) for lanes in self._lanes], np.float32)


def _reward(lanes: Sequence[Lane]) -> float:
    waiting_s = sum(lane.count(libsumo.lane.getWaitingTime) for lane in lanes)
    return max(-WORST, -float(waiting_s) / WAITING_S)
