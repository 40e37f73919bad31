"""Fixed-time control for expected demand: Webster's cycle and splits, made anew for each hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lab.net.net import load_net
from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.observation import Observation
from lab.sim.webster import critical_movements, phase_times_s
from models.signals.clock_plan import phase_at

LOST_S = 4.0  # per phase: yellow and start-up, less what still drives at yellow
FEWEST_DECISIONS = 2  # per phase


class FixedTime:
    """Runs one plan per junction and hour of the demand.

    Every junction has its own best cycle. Against a common cycle with offsets along the arterial of
    the shipped network it loses 8 % less (morning) to 5 % more time (evening): the center needs a
    cycle two to three times as long as its neighbours do.
    """

    def __init__(self, demand: DailyDemand, junctions: Iterable[str], decision_s: int) -> None:
        net, ids = load_net(demand.net), list(junctions)
        self._hourly = []  # by junction, the seconds of each phase
        for begin_s in range(demand.begin_s, demand.end_s, HOUR_S):
            middle_s = (begin_s + min(begin_s + HOUR_S, demand.end_s)) / 2
            flows = demand.movement_flows(middle_s)
            ratios = {each: critical_movements(net, each, flows) for each in ids}
            times = {
                each: phase_times_s(ratios[each], LOST_S, decision_s, FEWEST_DECISIONS)
                for each in ids
            }
            self._hourly.append(times)
        self._decision_s = decision_s
        self._run_s = 0

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        times = self._hourly[self._run_s // HOUR_S]
        actions = {each: phase_at(self._run_s, times[each]) for each in observations}
        self._run_s += self._decision_s
        return actions
