"""Fixed times after Webster: cycle and green times from the flows through a junction.

Source: F. V. Webster, "Traffic Signal Settings", Road Research Technical Paper 39, 1958.

A phase's flow ratio is the flow of its critical stream divided by the saturation flow. Two kinds of
streams are in use. Counted flows on any net are assigned to single lanes
(:func:`critical_lanes`): on real nets, whose lanes are shared by many movements, this is the
better controller. Expected flows of a demand model are assigned to movements and approaches
(:func:`critical_movements`): it sees left turns against oncoming traffic, and is the better one
where every movement has separate lanes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lab.net.net import SumoLink, SumoNet, load_net
from lab.net.program import Program
from lab.net.stages import stages_of
from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.observation import Observation
from models.signals.clock_plan import phase_at

SATURATION_FLOW = 1800.0  # vehicles per hour of green and lane
SHORTEST_S, LONGEST_S = 30.0, 120.0  # of a cycle
FULLEST = 0.9  # sum of flow ratios; near 1 Webster's cycle grows without bound
OPPOSED_TURN = 3.0  # through vehicles that count as much as one turn against oncoming traffic
MIN_GREEN_S = 5
START_UP_S = 2.0  # that a phase loses beside its yellow
LOST_S = 4.0  # per phase: yellow and start-up, less what still drives at yellow
FEWEST_DECISIONS = 2  # per phase

Flows = Mapping[tuple[str, str], float]  # vehicles per hour, from an edge to the next


def cycle_s(ratios: Sequence[float], lost_s: float) -> float:
    """Return the cycle of least delay, (1.5 L + 5) / (1 - Y), within its bounds."""
    cycle = (1.5 * lost_s + 5) / (1 - min(FULLEST, sum(ratios)))
    return float(np.clip(cycle, SHORTEST_S, LONGEST_S))


def phase_times_s(ratios: Sequence[float], decision_s: int) -> tuple[int, ...]:
    """Return the seconds of each phase with its yellow, in whole decisions."""
    lost_s = LOST_S * len(ratios)
    green_s = cycle_s(ratios, lost_s) - lost_s
    ideal_s = LOST_S + green_s * np.array(ratios) / sum(ratios)
    decisions = np.maximum(FEWEST_DECISIONS, np.round(ideal_s / decision_s)).astype(int)
    return tuple((decision_s * decisions).tolist())


def green_times_s(net: SumoNet, signal: str, flows: Flows) -> dict[int, int]:
    """Return the seconds of each green phase of a net's program, by its number.

    The times between greens stay as the program has them.
    """
    program = net.programs[signal][-1]
    ratios = {
        number: max(0.01, ratio) for number, ratio in critical_lanes(net, signal, flows).items()
    }
    between_s = sum(
        float(phase["duration"])
        for number, phase in enumerate(program.phases)
        if number not in ratios
    )
    cycle = cycle_s(list(ratios.values()), between_s + START_UP_S * len(ratios))
    green_s = cycle - between_s
    total = sum(ratios.values())
    return {
        number: max(MIN_GREEN_S, round(green_s * ratio / total)) for number, ratio in ratios.items()
    }


def critical_lanes(net: SumoNet, signal: str, flows: Flows) -> dict[int, float]:
    """Return per green phase the largest flow ratio of a lane that it is the best phase of.

    A movement's flow is shared by its lanes; a lane counts in the phase that gives green to the
    most of its links, and there in the first.
    """
    program, links = net.programs[signal][-1], _driven(net, signal)
    ways = {(net.lanes[link.lane].edge, link.to_edge, link.lane) for link in links}
    lanes_of = Counter((start, end) for start, end, _ in ways)
    loads: defaultdict[str, float] = defaultdict(float)
    for start, end, lane in sorted(ways):
        loads[lane] += flows.get((start, end), 0.0) / lanes_of[start, end]
    greens = green_phases(program)
    critical = dict.fromkeys(greens, 0.0)
    for lane, load in loads.items():
        indices = [link.index for link in links if link.lane == lane]
        best = max(greens, key=lambda each: sum(program.states[each][i] in "Gg" for i in indices))
        critical[best] = max(critical[best], load / SATURATION_FLOW)
    return critical


def critical_movements(net: SumoNet, signal: str, flows: Flows) -> list[float]:
    """Return per green phase the largest flow ratio of a movement, or of a whole approach.

    A movement counts in its first green phase.
    """
    program = net.programs[signal][-1]
    greens = green_phases(program)
    movements: defaultdict[tuple[str, str], list[SumoLink]] = defaultdict(list)
    for link in _driven(net, signal):
        movements[net.lanes[link.lane].edge, link.to_edge].append(link)
    loads: defaultdict[tuple[int, str], float] = defaultdict(float)
    lanes: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
    critical = dict.fromkeys(greens, 0.0)
    for (start, end), links in movements.items():
        shown = {each: {program.states[each][link.index] for link in links} for each in greens}
        phase = next((each for each in greens if shown[each] & set("Gg")), None)
        if phase is None:
            continue
        load = flows.get((start, end), 0.0)
        if "G" not in shown[phase]:
            load *= OPPOSED_TURN
        own = {link.lane for link in links}
        loads[phase, start] += load
        lanes[phase, start] |= own
        critical[phase] = max(critical[phase], load / len(own))
    for (phase, start), load in loads.items():
        critical[phase] = max(critical[phase], load / len(lanes[phase, start]))
    return [flow / SATURATION_FLOW for flow in critical.values()]


def green_phases(program: Program) -> list[int]:
    """Return the numbers of the phases that show a stage; the others lead from one to another."""
    stages = stages_of(program)
    return [number for number, state in enumerate(program.states) if state in stages]


def _driven(net: SumoNet, signal: str) -> list[SumoLink]:
    return [link for link in net.links[signal] if link.lane in net.lanes and not link.walked]


class FixedTime:
    """Control for expected demand, with one plan per junction and hour of it.

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
            times = {each: phase_times_s(ratios[each], decision_s) for each in ids}
            self._hourly.append(times)
        self._decision_s = decision_s
        self._run_s = 0

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        times = self._hourly[self._run_s // HOUR_S]
        actions = {each: phase_at(self._run_s, times[each]) for each in observations}
        self._run_s += self._decision_s
        return actions
