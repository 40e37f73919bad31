"""Where in a city vehicles lose their time: on the way to which of its signals."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import libsumo
import numpy as np
from numpy.typing import NDArray

from lab.net.net import SumoNet, load_net
from lab.sim.environment import BUS
from models.networks.form import NetworkFile


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
        standing_weight: further seconds that each second of standing counts as.
    """

    def __init__(
        self,
        agents: Mapping[str, int],
        n_agents: int,
        bus_weight: float = 1.0,
        standing_weight: float = 0.0,
    ) -> None:
        self._agents = agents
        self._n_agents = n_agents
        self._bus_weight = bus_weight
        self._standing_weight = standing_weight
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
            total_s = self._lost_s(vehicle)
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

    def _lost_s(self, vehicle: str) -> float:
        lost_s = float(libsumo.vehicle.getTimeLoss(vehicle))
        if self._standing_weight:
            lost_s += self._standing_weight * libsumo.vehicle.getAccumulatedWaitingTime(vehicle)
        return lost_s

    def _weight(self, vehicle: str) -> float:
        is_bus = self._bus_weight != 1 and libsumo.vehicle.getVehicleClass(vehicle) == BUS
        return self._bus_weight if is_bus else 1.0
