"""Controllers for any city that look at its lanes: greedy, and max pressure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from models.networks.form import JunctionEntry, NetworkFile

Count = Callable[[str], float]  # vehicles on a lane, those that stand or all

YIELDING = 0.5  # of a way that has to give way: about half as many get through


class ByQueues:
    """Gives green to the phase with the most vehicles that it serves.

    A lane's vehicles are shared evenly by its ways across the junction, as nobody knows who turns
    where: a phase that serves some of them counts that share. Without it, a phase of left turns
    alone can keep its green for ever in favour of a queue whose first vehicle goes straight on.
    Without YIELDING, such a phase never gets green where another lets left turns give way.

    Args:
        pressure: subtract from each way what is on the lane that it leads to (Varaiya, 2013).
    """

    def __init__(self, network: NetworkFile, pressure: bool) -> None:
        self._junctions = {each.id: _Ways(each, pressure) for each in network.junctions}

    def act(self, phases: Mapping[str, int], count: Count) -> dict[str, int]:
        """Return a phase for each junction; the present one where none is better."""
        return {name: self._junctions[name].best(phase, count) for name, phase in phases.items()}


class _Ways:
    """A junction's ways: from which lane, to which, and how much of it each phase serves."""

    def __init__(self, junction: JunctionEntry, pressure: bool, yielding: float = YIELDING) -> None:
        green = {"G": 1.0, "g": yielding}
        lanes = {lane.id: lane for lane in junction.lanes}
        ways = [
            (place if link.index is None else link.index, link)
            for place, link in enumerate(junction.links or ())
            if link.lane in lanes
        ]
        of_lane = Counter(link.lane for _, link in ways)
        self.incoming = [lanes[link.lane] for _, link in ways]
        self._to = [link.to for _, link in ways] if pressure else []
        self.served: NDArray[np.float64] = np.array(
            [
                [green.get((phase.state or "")[i], 0) / of_lane[link.lane] for i, link in ways]
                for phase in junction.phases
            ]
        )

    def best(self, present: int, count: Count) -> int:
        vehicles = np.array([lane.count(count) for lane in self.incoming], float)
        if self._to:
            vehicles -= [count(lane) for lane in self._to]
        wishes = self.served @ vehicles
        best = int(wishes.argmax())
        return best if wishes[best] > wishes[present] + 1e-9 else present


def shares_served(junction: JunctionEntry, yielding: float = YIELDING) -> NDArray[np.float64]:
    """Return (phases, lanes): which share of each lane's vehicles a phase serves.

    Args:
        yielding: how much a way counts that has to give way, 0 to 1.
    """
    ways = _Ways(junction, pressure=False, yielding=yielding)
    places = {lane.id: place for place, lane in enumerate(junction.lanes)}
    shares = np.zeros((len(junction.phases), len(places)))
    for way, lane in enumerate(ways.incoming):
        shares[:, places[lane.id]] += ways.served[:, way]
    return shares
