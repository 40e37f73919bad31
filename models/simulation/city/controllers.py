"""Controllers for any city that look at the queues of its lanes: greedy, and max pressure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from models.networks.file import JunctionEntry, NetworkFile

Queue = Callable[[str], float]  # vehicles that stand on a lane


class ByQueues:
    """Gives green to the phase with the most standing vehicles that it serves.

    A lane's queue is shared evenly by its ways across the junction, as nobody knows who turns
    where: a phase that serves some of them counts that share. Without it, a phase of left turns
    alone can keep its green for ever in favour of a queue whose first vehicle goes straight on.

    Args:
        pressure: subtract from each way what stands on the lane that it leads to (Varaiya, 2013).
    """

    def __init__(self, network: NetworkFile, pressure: bool) -> None:
        self._junctions = {each.id: _Ways(each, pressure) for each in network.junctions}

    def act(self, phases: Mapping[str, int], queue: Queue) -> dict[str, int]:
        """Return a phase for each junction; the present one where none is better."""
        return {name: self._junctions[name].best(phase, queue) for name, phase in phases.items()}


class _Ways:
    """A junction's ways: from which lane, to which, and how much of it each phase serves."""

    def __init__(self, junction: JunctionEntry, pressure: bool) -> None:
        lanes = {lane.id for lane in junction.lanes}
        ways = [
            (place if link.index is None else link.index, link)
            for place, link in enumerate(junction.links or ())
            if link.lane in lanes
        ]
        of_lane = Counter(link.lane for _, link in ways)
        self._from = [link.lane for _, link in ways]
        self._to = [link.to for _, link in ways] if pressure else []
        self._served: NDArray[np.float64] = np.array(
            [
                [((phase.state or "")[i] in "Gg") / of_lane[link.lane] for i, link in ways]
                for phase in junction.phases
            ]
        )

    def best(self, present: int, queue: Queue) -> int:
        standing = np.array([queue(lane) for lane in self._from], float)
        if self._to:
            standing -= [queue(lane) for lane in self._to]
        wishes = self._served @ standing
        best = int(wishes.argmax())
        return best if wishes[best] > wishes[present] + 1e-9 else present
