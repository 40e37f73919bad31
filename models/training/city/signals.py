"""The signals of a city in one simulation, for the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.networks.network import Network, network_of
from models.simulation.city.environment import CityEnvironment, Observations
from models.simulation.city.scenario import CityScenario
from models.simulation.metrics import Metrics
from models.training.city.delays import Delays, agents_of_edges
from models.training.signals_env import PENDING_SCALE, AgentObservation, Floats, Reward


def state_dim(network: Network) -> int:
    """Return the size of what the critic sees: see :meth:`CitySignals.state`."""
    return sum(each.obs_size + each.n_lanes + 1 for each in network.junctions.values()) + 1


class CitySignals:
    """An episode is the scenario from its begin to its end, whatever the seed.

    Args:
        reward: ``time_loss``: minus the vehicles delayed, each by the share of its speed that it
            lacks, on all edges from where the junction is the next; ``waiting_change``: minus the
            change of the time that the vehicles on its incoming lanes have been standing.
        team_share: weight of the other junctions' rewards in each junction's own.
    """

    def __init__(self, scenario: CityScenario, reward: Reward, team_share: float) -> None:
        self.scenario = scenario
        self.network = network_of(scenario.network)
        self.agents: list[str] = []
        self._reward = reward
        self._team_share = team_share
        self._city = CityEnvironment(scenario)
        self._junctions = sorted(scenario.network.junctions, key=lambda each: each.agent_index)

    def reset(self, seed: int) -> tuple[dict[str, AgentObservation], Any]:
        self._observations = self._city.reset(seed)
        self.agents = list(self.network.ids)
        edges = agents_of_edges(self.scenario.net, self.scenario.network)
        self._delays = Delays(edges, self.network.n_agents)
        self._pending = np.zeros(self.network.n_agents)
        self._waiting = np.zeros(self.network.n_agents)
        return _as_agents_see(self._observations), {}

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[dict[str, AgentObservation], dict[str, float], Any, Any, Any]:
        agents, before_s = self.agents, self._city.time_s
        self._observations = self._city.step(actions)
        seconds = self._city.time_s - before_s
        lost, self._pending = self._delays.look(seconds)
        if self._reward == "waiting_change":
            waiting = np.array([self._waiting_on(each) for each in range(len(agents))])
            lost, self._waiting = waiting - self._waiting, waiting
        own = -lost / seconds
        rewards = own + self._team_share * (own.sum() - own)
        done = self._city.is_over
        if done:
            self.agents = []
        return (
            _as_agents_see(self._observations),
            dict(zip(agents, rewards.tolist(), strict=True)),
            dict.fromkeys(agents, False),
            dict.fromkeys(agents, done),
            {},
        )

    def state(self) -> Floats:
        """(state_dim,) the whole city for a central critic: more than any detector sees.

        All observations; per lane what they leave out, standing vehicles or those that drive; per
        junction the vehicles that wait to enter; and how much of the time is over.
        """
        count = self._city.queue if self.scenario.counts == "all" else self._city.vehicles
        lanes = [lane for each in self._junctions for lane in each.lanes]
        shares = [lane.count(count) / lane.capacity for lane in lanes]
        begin_s, end_s = self.scenario.begin_s, self.scenario.end_s
        clock = [(self._city.time_s - begin_s) / (end_s - begin_s)]
        observed = [self._observations[each] for each in self.network.ids]
        return np.concatenate([*observed, shares, self._pending / PENDING_SCALE, clock], dtype="f4")

    def metrics(self) -> Metrics:
        return self._city.metrics()

    def close(self) -> None:
        self._city.close()

    def _waiting_on(self, agent: int) -> float:
        return sum(lane.count(self._city.waiting_s) for lane in self._junctions[agent].lanes)


def _as_agents_see(observations: Observations) -> dict[str, AgentObservation]:
    return {name: {"observation": each} for name, each in observations.items()}
