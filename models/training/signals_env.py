"""The five signals as a parallel multi-agent environment with PettingZoo's interface.

Terry et al., "PettingZoo: Gym for Multi-Agent Reinforcement Learning", 2021. Any trainer that
speaks that interface can use it; ours is :mod:`models.training.mappo`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from models.networks.shipped import JUNCTIONS, N_ACTIONS, SHIPPED
from models.simulation.environment import DECISION_S, Scenario, TrafficEnvironment
from models.simulation.metrics import Metrics
from models.simulation.road_network import RoadNetwork, read_network
from models.training.lane_traffic import LaneTraffic, read_lane_traffic

Floats = NDArray[np.float32]
AgentObservation = dict[str, NDArray[Any]]
Reward = Literal["time_loss", "waiting_change"]
STATE_DIM = sum(junction.obs_size + junction.n_lanes + 1 for junction in JUNCTIONS.values()) + 2

TYPICAL_DELAY = (1.8, 2.6)  # a, b: about a * exp(b * demand level) vehicles are delayed on average
PENDING_SCALE = 20.0  # vehicles that wait to enter, in the state


def typical_delay(scenario: Scenario) -> float:
    """Vehicles delayed on average under ordinary control, so that light traffic counts too."""
    level, _ = scenario.profile.at(scenario.begin_s + scenario.duration_s / 2)
    factor, growth = TYPICAL_DELAY
    return float(factor * np.exp(growth * scenario.demand_scale * level))


class SignalsEnv(ParallelEnv[str, AgentObservation, int]):  # type: ignore[misc]  # has no types
    """Agents are the junctions; a step is a decision of five seconds.

    An observation is a dict of ``observation``, exactly what the service gets, and
    ``action_mask``, the junction's available actions. All agents live until the scenario's time is
    over, which truncates the episode: traffic has no end of its own.

    Args:
        make_scenario: gives the scenario of a seed.
        reward: ``time_loss``: minus the vehicles delayed at the junction, each by the share of its
            speed that it lacks, with those that wait to enter there; ``waiting_change``:
            minus the change in the waiting time, in vehicle-seconds, of all vehicles on its lanes.
        team_share: weight of the other junctions' rewards in each junction's own.
    """

    metadata = {"name": "greenwave_signals_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's

    def __init__(
        self,
        make_scenario: Callable[[int], Scenario] = lambda seed: Scenario(),
        reward: Reward = "time_loss",
        team_share: float = 0.2,
        network: RoadNetwork | None = None,
    ) -> None:
        if reward not in get_args(Reward):
            raise ValueError(f"reward {reward!r} is not one of {', '.join(get_args(Reward))}")
        self.possible_agents = list(JUNCTIONS)
        self.agents: list[str] = []
        self.render_mode = None
        self.network = network or read_network()
        self._make_scenario = make_scenario
        self._reward = reward
        self._team_share = team_share
        self._next_seed = 0
        self._traffic: TrafficEnvironment | None = None
        self._spaces = {
            junction.id: spaces.Dict(
                {
                    "observation": spaces.Box(0, 1, (junction.obs_size,), np.float32),
                    "action_mask": spaces.Box(0, 1, (N_ACTIONS,), np.int8),
                }
            )
            for junction in JUNCTIONS.values()
        }
        self._action_spaces = {agent: spaces.Discrete(N_ACTIONS) for agent in JUNCTIONS}

    def observation_space(self, agent: str) -> spaces.Dict:
        return self._spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, AgentObservation], dict[str, dict[str, Any]]]:
        """Start the seed's scenario; without a seed, that of the seed after the last one."""
        self.close()
        seed = self._next_seed if seed is None else seed
        self._next_seed = seed + 1
        scenario = self._make_scenario(seed)
        self._traffic = TrafficEnvironment(scenario, self.network)
        self.agents = list(self.possible_agents)
        self._reward_scale = 1 / typical_delay(scenario)
        self._observations = self._traffic.reset(seed)
        self._lanes = read_lane_traffic(self.network)
        return self._agent_observations(), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[
        dict[str, AgentObservation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Let five seconds pass.

        Raises:
            ValueError: an action that the mask forbids.
            RuntimeError: the episode is over, or has not begun.
        """
        if self._traffic is None or not self.agents:
            raise RuntimeError("reset the environment before the first step of an episode")
        before = self._lanes
        self._observations = self._traffic.step({a: int(action) for a, action in actions.items()})
        self._lanes = read_lane_traffic(self.network)
        own = self._own_rewards(before)
        rewards = own + self._team_share * (own.sum() - own)
        done = self._traffic.done
        agents = self.agents
        if done:
            self.agents = []
        return (
            self._agent_observations(),
            dict(zip(agents, rewards.tolist(), strict=True)),
            dict.fromkeys(agents, False),
            dict.fromkeys(agents, done),
            {agent: {} for agent in agents},
        )

    def state(self) -> Floats:
        """(STATE_DIM,) the whole network for a central critic: more than any detector sees.

        All observations; per lane the vehicles under way, as a share of its capacity; per junction
        the vehicles that wait to enter; the expected level and direction of the demand.
        """
        if self._traffic is None:
            raise RuntimeError("reset the environment before asking for its state")
        moving, pending = [], []
        for agent in JUNCTIONS:
            lanes = self._lanes[agent]
            capacities = [lane.capacity for lane in self.network.junctions[agent].lanes]
            moving += ((lanes.vehicles - self._traffic.halted[agent]) / capacities).tolist()
            pending.append(lanes.pending / PENDING_SCALE)
        scenario = self._traffic.scenario
        level, evening = scenario.profile.at(self._traffic.time_s)
        demand = [scenario.demand_scale * level, evening]
        return np.concatenate([*self._observations.values(), moving, pending, demand], dtype="f4")

    def metrics(self) -> Metrics:
        """End the simulation and count how it went."""
        if self._traffic is None:
            raise RuntimeError("reset the environment before asking for its metrics")
        self.agents = []
        return self._traffic.metrics()

    def close(self) -> None:
        if self._traffic is not None:
            self._traffic.close()
            self._traffic = None

    def _agent_observations(self) -> dict[str, AgentObservation]:
        return {
            junction.id: {
                "observation": self._observations[junction.id],
                "action_mask": np.array(SHIPPED.avail_actions(junction.id), np.int8),
            }
            for junction in JUNCTIONS.values()
        }

    def _own_rewards(self, before: Mapping[str, LaneTraffic]) -> NDArray[np.float64]:
        now = self._lanes
        if self._reward == "time_loss":
            own = [-now[each].delayed for each in JUNCTIONS]
        else:
            own = [
                (before[each].waiting_s - now[each].waiting_s) / DECISION_S for each in JUNCTIONS
            ]
        return self._reward_scale * np.array(own)
