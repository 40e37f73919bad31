"""What is measured in a run beside SUMO's files: queues as RESCO counts them, and crossings.

RESCO's definitions: ``resco_benchmark`` at https://github.com/Pi-Star-Lab/RESCO, revision fc65e91.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libsumo

from lab.sim.daily_demand import DailyDemand
from lab.sim.environment import Environment, vehicles_within
from lab.sim.scenario import Scenario
from lab.sim.simulator import Change

SEEN_M = 200.0  # before the stop line


class Measures:
    """Looks at a run before each decision; only traffic that is not drawn has RESCO's queues.

    A vehicle is in RESCO's queue from the first decision at which it stands until it has left the
    signal's incoming lanes (``traffic_signal.py``, ``utils/readCSV.py``).
    """

    def __init__(self, scenario: Scenario) -> None:
        junctions = scenario.network.junctions
        self._scenario = scenario
        self._has_queues = not isinstance(scenario.demand, DailyDemand)
        self._has_crossings = any(each.crossings for each in junctions)
        self._lanes = [[lane.id for lane in each.lanes] for each in junctions]
        self._queued: list[set[str]] = [set() for _ in self._lanes]
        self._total = self._n_looks = 0
        self._wait_s = 0.0

    def look(self, environment: Environment) -> None:
        if self._has_queues:
            self._look_at_queues()
        self._look_at_crossings(environment)

    def _look_at_queues(self) -> None:
        for lanes, queued in zip(self._lanes, self._queued, strict=True):
            seen = {vehicle for lane in lanes for vehicle in vehicles_within(lane, SEEN_M)}
            queued &= seen
            queued |= {each for each in seen if libsumo.vehicle.getWaitingTime(each) > 0}
            self._total += len(queued)
        self._n_looks += 1

    def _look_at_crossings(self, environment: Environment) -> None:
        if self._has_crossings:
            waiting = environment.waiting_pedestrians().values()
            self._wait_s = max([self._wait_s, *(seconds for each in waiting for seconds in each)])

    def results(self, environment: Environment) -> dict[str, float | None]:
        """Return further values of a :class:`.Run` at its end.

        RESCO's mean is over decisions and signals, of which its code counts one too many.
        """
        self._look_at_crossings(environment)
        reds_s = longest_reds(self._scenario, environment.changes, environment.time_s)
        queue = self._total / max(1, self._n_looks) / (len(self._lanes) + 1)
        return {
            "resco_queue": queue if self._has_queues else None,
            "walk_wait_s": self._wait_s,
            "walk_red_s": float(max(reds_s, default=0)),
        }


def longest_reds(scenario: Scenario, changes: Sequence[Change], end_s: int) -> Iterator[float]:
    """Yield for how many seconds each crossing was red at most until the end."""
    for junction in scenario.network.junctions:
        shown = [each for each in changes if each.signal == junction.id]
        for place, link in junction.placed_links:
            if link.crossing is None or not shown:
                continue
            green_s, longest_s, red = float(scenario.begin_s), 0.0, True
            for change in (*shown, Change(end_s, junction.id, "G" * len(shown[0].state))):
                walks = change.state[place] in "Gg"
                if walks and red:
                    longest_s = max(longest_s, change.time_s - green_s)
                elif not walks and not red:
                    green_s = change.time_s
                red = not walks
            yield longest_s
