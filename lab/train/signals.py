"""The signals of a scenario as the trainer sees them: rewards, and the state for the critic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lab.sim.environment import Environment, Observations
from lab.sim.metrics import Metrics
from lab.sim.scenario import Scenario
from lab.train.delays import Delays, agents_of_edges
from models.networks.network import network_of

PENDING_SCALE = 20.0  # vehicles that wait to enter, in the state

Floats = NDArray[np.float32]
Reward = Literal["time_loss", "waiting_change"]


class Signals:
    """An episode is the scenario from its begin to its end.

    Args:
        reward: ``time_loss``: minus the vehicles delayed, each by the share of its speed that it
            lacks, on all edges from where the junction is the next; ``waiting_change``: minus the
            change of the time that the vehicles on its incoming lanes have been standing.
        team_share: weight of the other junctions' rewards in each junction's own.
        pedestrian_weight: of the pedestrians who wait at a junction's crossings, as
            :meth:`Environment.pedestrian_calls` counts them, beside its delayed vehicles.
        standing_weight: with ``time_loss``, further seconds that each second of standing counts as.
    """

    def __init__(
        self,
        scenario: Scenario,
        reward: Reward,
        team_share: float,
        pedestrian_weight: float = 1.0,
        standing_weight: float = 0.0,
    ) -> None:
        self.scenario = scenario
        self.network = network_of(scenario.network)
        self._reward = reward
        self._team_share = team_share
        self._pedestrian_weight = pedestrian_weight
        self._standing_weight = standing_weight
        self._environment = Environment(scenario)
        self._junctions = sorted(scenario.network.junctions, key=lambda each: each.agent_index)

    def reset(self, seed: int) -> Observations:
        self._observations = self._environment.reset(seed)
        edges = agents_of_edges(self.scenario.net, self.scenario.network)
        weights = self.scenario.bus_weight, self._standing_weight
        self._delays = Delays(edges, self.network.n_agents, *weights)
        self._pending = np.zeros(self.network.n_agents)
        self._waiting = np.zeros(self.network.n_agents)
        return self._observations

    @property
    def is_over(self) -> bool:
        return self._environment.is_over

    @property
    def choices(self) -> dict[str, bool]:
        """Whether each junction's next action makes a difference to its phase."""
        return self._environment.choices

    def step(self, actions: Mapping[str, int]) -> tuple[Observations, NDArray[np.float64]]:
        """Let the time of a decision pass; returns observations and the agents' rewards."""
        before_s = self._environment.time_s
        self._observations = self._environment.step(actions)
        seconds = self._environment.time_s - before_s
        lost, self._pending = self._delays.look(seconds)
        if self._reward == "waiting_change":
            waiting = np.array([self._waiting_on(each) for each in range(self.network.n_agents)])
            lost, self._waiting = waiting - self._waiting, waiting
        own = -lost / seconds - self._pedestrian_weight * self._calls()
        return self._observations, own + self._team_share * (own.sum() - own)

    def state(self) -> Floats:
        """Return the whole network for a central critic: more than any detector sees.

        All observations, of detectors that work; per lane what they leave out, all vehicles or
        those that stand; per junction the vehicles that wait to enter; how much of the time is
        over; and what is known of the demand.
        """
        environment, scenario = self._environment, self.scenario
        observed = self._observations
        if scenario.detector_reads is not None:
            observed = environment.true_observations()
        count = environment.standing if scenario.counts == "all" else environment.vehicles
        lanes = [lane for each in self._junctions for lane in each.lanes]
        shares = [lane.count(count) / lane.capacity for lane in lanes]
        begin_s, end_s = scenario.begin_s, scenario.end_s
        clock = [(environment.time_s - begin_s) / (end_s - begin_s)]
        demand = scenario.demand.expected(environment.time_s)
        return np.concatenate(
            [
                *(observed[each] for each in self.network.ids),
                shares,
                self._pending / PENDING_SCALE,
                clock,
                demand,
            ],
            dtype="f4",
        )

    def metrics(self) -> Metrics:
        return self._environment.metrics()

    def close(self) -> None:
        self._environment.close()

    def _calls(self) -> NDArray[np.float64]:
        calls = self._environment.pedestrian_calls()
        return np.array(
            [sum(calls.get(name, 0.0) for name in each.crossings) for each in self._junctions]
        )

    def _waiting_on(self, agent: int) -> float:
        lanes = self._junctions[agent].lanes
        return sum(lane.count(self._environment.waiting_s) for lane in lanes)


def state_dim(scenario: Scenario) -> int:
    """Return the size of :meth:`Signals.state`."""
    junctions = network_of(scenario.network).junctions.values()
    known = len(scenario.demand.expected(scenario.begin_s))
    return sum(each.obs_size + each.n_lanes + 1 for each in junctions) + 1 + known
