"""What the trainer sees of an environment: rewards, and the state for the critic.

Rewards are the time that vehicles lose, on the way to the signal that they come to next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import libsumo
import numpy as np
from numpy.typing import NDArray

from lab.net.net import SumoNet, load_net
from lab.sim.environment import BUS, Environment, Observations
from lab.sim.scenario import Scenario
from models.networks.form import NetworkFile
from models.networks.network import network_of

PENDING_SCALE = 20.0  # vehicles that wait to enter, in the state

Floats = NDArray[np.float32]


class Rewards:
    """Watches an environment from its reset on.

    A junction's reward is minus the vehicles delayed, each by the share of its speed that it lacks,
    on all edges from where the junction is the next.

    Args:
        team_share: weight of the other junctions' rewards in each junction's own.
        pedestrian_weight: of the pedestrians who wait at a junction's crossings, as
            :meth:`Environment.pedestrian_calls` counts them, beside its delayed vehicles.
    """

    def __init__(
        self, environment: Environment, team_share: float, pedestrian_weight: float = 1.0
    ) -> None:
        scenario = environment.scenario
        self._environment, self._time_s = environment, environment.time_s
        self._team_share, self._pedestrian_weight = team_share, pedestrian_weight
        self._junctions = sorted(scenario.network.junctions, key=lambda each: each.agent_index)
        edges, n_agents = agents_of_edges(scenario.net, scenario.network), len(self._junctions)
        self._delays = Delays(edges, n_agents, scenario.bus_weight)
        self._pending = np.zeros(n_agents)

    def look(self) -> NDArray[np.float64]:
        """Return the agents' rewards for the time since the last look, or the reset."""
        before_s, self._time_s = self._time_s, self._environment.time_s
        seconds = self._time_s - before_s
        lost, self._pending = self._delays.look(seconds)
        own: NDArray[np.float64] = -lost / seconds - self._pedestrian_weight * self._calls()
        return np.asarray(own + self._team_share * (own.sum() - own))

    def state(self, observed: Observations) -> Floats:
        """Return the whole network for a central critic: more than any detector sees.

        All observations; per lane what they leave out, all vehicles or those that stand; per
        junction the vehicles that wait to enter; how much of the time is over; and what is known of
        the demand.
        """
        environment, scenario = self._environment, self._environment.scenario
        count = environment.standing if scenario.counts == "all" else environment.vehicles
        lanes = [lane for each in self._junctions for lane in each.lanes]
        shares = [lane.count(count) / lane.capacity for lane in lanes]
        begin_s, end_s = scenario.begin_s, scenario.end_s
        clock = [(environment.time_s - begin_s) / (end_s - begin_s)]
        demand = scenario.demand.expected(environment.time_s)
        return np.concatenate(
            [
                *(observed[each.id] for each in self._junctions),
                shares,
                self._pending / PENDING_SCALE,
                clock,
                demand,
            ],
            dtype="f4",
        )

    def _calls(self) -> NDArray[np.float64]:
        calls = self._environment.pedestrian_calls()
        return np.array(
            [sum(calls.get(name, 0.0) for name in each.crossings) for each in self._junctions]
        )


def state_dim(scenario: Scenario) -> int:
    """Return the size of :meth:`Rewards.state`."""
    junctions = network_of(scenario.network).junctions.values()
    known = len(scenario.demand.expected(scenario.begin_s))
    return sum(each.obs_size + each.n_lanes + 1 for each in junctions) + 1 + known


@lru_cache(maxsize=4)
def agents_of_edges(path: Path, network: NetworkFile) -> dict[str, int]:
    """Return by edge the index of the agent that its vehicles come to next.

    Where they come to none any more, it is the one that they come from.
    """
    net = load_net(path)
    incoming = [(lane.id, each.agent_index) for each in network.junctions for lane in each.lanes]
    found: dict[str, int] = {}
    for ways in (net.behind, net.ahead):
        _spread(net, incoming, ways, found)
    return found


def _spread(
    net: SumoNet,
    start: list[tuple[str, int]],
    ways: Mapping[str, set[str]],
    found: dict[str, int],
) -> None:
    """Give every edge that is reached the agent that reaches it first."""
    reached, seen = deque(start), {lane for lane, _ in start}
    while reached:
        lane, agent = reached.popleft()
        found.setdefault(net.lanes[lane].edge, agent)
        for following in sorted(ways.get(lane, ())):
            if following in net.lanes and following not in seen:
                seen.add(following)
                reached.append((following, agent))


class Delays:
    """Counts the vehicle-seconds that each agent's vehicles lose in a running simulation.

    Over an episode they add up to the delay that is judged, but for each vehicle's last seconds.
    Who waits to enter loses all the time.

    Args:
        bus_weight: vehicles that a bus on its way counts as.
    """

    def __init__(self, agents: Mapping[str, int], n_agents: int, bus_weight: float = 1.0) -> None:
        self._agents = agents
        self._n_agents = n_agents
        self._bus_weight = bus_weight
        self._known: dict[str, tuple[int | None, float]] = {}

    def look(self, seconds: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (n_agents,) seconds lost since the last look, and vehicles that wait to enter.

        Args:
            seconds: since the last look.
        """
        lost, pending = np.zeros(self._n_agents), np.zeros(self._n_agents)
        known: dict[str, tuple[int | None, float]] = {}
        for vehicle in libsumo.vehicle.getIDList():
            before, lost_s = self._known.get(vehicle, (None, 0.0))
            agent = self._agents.get(libsumo.vehicle.getRoadID(vehicle), before)
            total_s = float(libsumo.vehicle.getTimeLoss(vehicle))
            known[vehicle] = agent, total_s
            to = agent if before is None else before
            if to is not None:
                lost[to] += self._weight(vehicle) * (total_s - lost_s)
        for vehicle in libsumo.simulation.getPendingVehicles():
            agent = self._agents.get(libsumo.vehicle.getRoute(vehicle)[0])
            if agent is not None:
                pending[agent] += 1
        self._known = known
        return lost + seconds * pending, pending

    def _weight(self, vehicle: str) -> float:
        is_bus = self._bus_weight != 1 and libsumo.vehicle.getVehicleClass(vehicle) == BUS
        return self._bus_weight if is_bus else 1.0
