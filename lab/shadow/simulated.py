"""Records of a simulated street, to try a shadow run, its report and event logs without one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from lab.processes import RunFolder
from lab.shadow.lamps import Stages
from lab.shadow.records import Record
from lab.sim.controllers import Control, run
from lab.sim.environment import Observations
from lab.sim.scenario import Scenario
from lab.sim.simulator import read_states, shown_states

SETBACK_M = 50.0  # from the stop line to a lane's loop, or half of a shorter lane
_STATES, _LOOPS = "greenwave.states.xml", "greenwave.loops.xml"


def simulate(scenario: Scenario, seed: int, control: Control) -> list[Record]:
    """Return the records of a run, by time; SUMO's clock counts the seconds since 1970.

    Raises:
        InvalidScenarioError: SUMO cannot drive the scenario.
    """
    observed: list[Observations] = []
    with RunFolder() as temporary:
        folder = Path(temporary)
        watched = replace(scenario, elements=(*scenario.elements, *_outputs(scenario)))

        def observe(observations: Observations, actions: object) -> None:
            observed.append(observations)

        run(watched, seed, control, observe, folder)
        states = [
            Record(time=each.time_s, junction=each.signal, state=each.state)
            for each in read_states(folder / _STATES)
        ]
        loops = sorted(_actuations(scenario, folder / _LOOPS), key=attrgetter("time"))
    decisions = _decisions(scenario, observed, states)
    return list(merge(states, loops, decisions, key=attrgetter("time")))


def _outputs(scenario: Scenario) -> Iterator[str]:
    lanes = scenario.sumo_net.lanes
    loops = quoteattr(_LOOPS)
    yield from shown_states(scenario, _STATES)
    for junction in scenario.network.junctions:
        for lane in junction.lanes:
            position_m = -min(SETBACK_M, lanes[lane.id].length_m / 2)
            name = quoteattr(lane.id)
            yield (
                f"<instantInductionLoop id={name} lane={name} pos={quoteattr(f'{position_m}')}"
                f" file={loops}/>"
            )


def _actuations(scenario: Scenario, path: Path) -> Iterator[Record]:
    junctions = {lane.id: each.id for each in scenario.network.junctions for lane in each.lanes}
    for _, element in ET.iterparse(path):
        if element.tag == "instantOut" and element.attrib["state"] != "stay":
            lane = element.attrib["id"]
            yield Record(
                time=float(element.attrib["time"]),
                junction=junctions[lane],
                lane=lane,
                occupied=element.attrib["state"] == "enter",
            )
        element.clear()


def _decisions(
    scenario: Scenario, observed: list[Observations], states: list[Record]
) -> Iterator[Record]:
    """Yield the decisions; phase and minimum green are those that the states show.

    The environment knows neither where SUMO runs the programs.
    """
    junctions = scenario.network.junctions
    stages = {each.id: Stages(each) for each in junctions}
    changes: dict[str, list[_Change]] = {each.id: [] for each in junctions}
    for state in states:
        phase = stages[state.junction].shown(state.state or "")
        changes[state.junction].append(_Change(state.time, phase))
    for number, observations in enumerate(observed):
        time_s = float(scenario.begin_s + number * scenario.decision_s)
        for junction in junctions:
            phase, green_s = _shown_at(time_s, changes[junction.id])
            n_phases = len(junction.phases)
            one_hot = [float(each == phase) for each in range(n_phases)]
            may_change = float(green_s >= max(scenario.min_green_s, 1))
            queues = (round(float(value), 4) for value in observations[junction.id][n_phases + 1 :])
            observation = (*one_hot, may_change, *queues)
            yield Record(time=time_s, junction=junction.id, observation=observation)


class _Change(NamedTuple):
    """What a junction shows from a time on; the phase is None during a change."""

    time_s: float
    phase: int | None


def _shown_at(time_s: float, changes: list[_Change]) -> tuple[int, float]:
    """Return the phase that is green or about to be, and for how long."""
    at = max(0, bisect_right(changes, time_s, key=attrgetter("time_s")) - 1)
    for since_s, phase in changes[at:]:
        if phase is not None:
            return phase, time_s - since_s if since_s <= time_s else -1.0
    return 0, -1.0
