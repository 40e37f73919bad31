"""The junctions of the documents: the network that is served unless a user brings another.

Source: section "Known junction identifiers" of the traffic-signal contract. A junction's position
in the table is its agent index, the one-hot part of the shared policy's input. A lane's capacity is
its length divided by the 7.5 m that a standing car and the gap before it take.
"""

from __future__ import annotations

from models.networks import network as networks
from models.networks.network import Network

N_ACTIONS = 4


class Junction(networks.Junction):
    """One of them."""

    @property
    def avail_actions(self) -> tuple[int, ...]:
        """Action mask of length N_ACTIONS: 1 for each action the junction has a phase for."""
        return tuple(int(action < self.n_phases) for action in range(N_ACTIONS))


_BIG = (*[37.2] * 4, *[39.9] * 4, *[34.1] * 3, *[43.1] * 3)

JUNCTIONS: dict[str, Junction] = {
    junction.id: junction
    for junction in (
        Junction("joinedS_265580996_300839357", 0, n_phases=4, capacities=_BIG),
        Junction("300839359", 1, n_phases=2, capacities=(35.4, 35.4, 37.2, 37.2, 27.1)),
        Junction("265580972", 2, n_phases=2, capacities=(42.1, 42.1, 35.4, 35.4, 30.6)),
        Junction("1270712555", 3, n_phases=2, capacities=(39.9, 39.9, 44.8, 44.8, 29.8)),
        Junction("8541180897", 4, n_phases=2, capacities=(39.0, 39.0, 34.1, 34.1, 30.6)),
    )
}

SHIPPED = Network.of("greenwave", JUNCTIONS.values())


def is_shipped(network: Network) -> bool:
    """Tell whether a network has the junctions of the documents."""
    return network.digest == SHIPPED.digest


N_AGENTS = SHIPPED.n_agents
MAX_OBS = SHIPPED.max_obs
