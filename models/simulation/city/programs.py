"""Programs for a city's signals: SUMO's actuated controls, and Webster's splits of its own phases.

Sources: https://sumo.dlr.de/docs/Simulation/Traffic_Lights.html, "Actuated Traffic Lights"; F. V.
Webster, "Traffic Signal Settings", Road Research Technical Paper 39, 1958.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

from models.networks.form import JunctionEntry, NetworkFile
from models.sumo.importing import UNGREEN
from models.sumo.net import Program, SumoNet

NAME = "greenwave"
MIN_GREEN_S, MAX_GREEN_S = 5, 50  # SUMO's defaults, where the net's own program says nothing
SATURATION_FLOW = 1800.0  # vehicles per hour of green and lane
START_UP_S = 2.0  # that a phase loses beside its yellow
SHORTEST_S, LONGEST_S = 30.0, 120.0  # of a cycle
FULLEST = 0.9  # flow ratio; near 1 Webster's cycle grows without bound

Flows = Mapping[tuple[str, str], float]  # vehicles per hour, from an edge to the next


def actuated(
    net: SumoNet, network: NetworkFile, kind: Literal["actuated", "delay_based"]
) -> Iterator[str]:
    """Yield the net's own programs with green times as the traffic asks for, as XML."""
    for junction in network.junctions:
        program = net.programs[junction.id][-1]
        yield _element(
            junction.id,
            kind,
            program,
            (
                {"minDur": f"{MIN_GREEN_S}", "maxDur": f"{MAX_GREEN_S}"} | phase
                if is_green(phase["state"])
                else {"duration": phase["duration"], "state": phase["state"]}
                for phase in program.phases
            ),
        )


def webster(net: SumoNet, network: NetworkFile, flows: Flows) -> Iterator[str]:
    """Yield the net's own programs with cycle and splits for some flows, as XML."""
    for junction in network.junctions:
        program = net.programs[junction.id][-1]
        greens = green_times_s(net, junction, program, flows)
        yield _element(
            junction.id,
            "static",
            program,
            (
                {"duration": f"{greens.get(number, float(phase['duration'])):.0f}"}
                | {"state": phase["state"]}
                for number, phase in enumerate(program.phases)
            ),
        )


def green_times_s(
    net: SumoNet, junction: JunctionEntry, program: Program, flows: Flows
) -> dict[int, float]:
    """Return seconds by number of each green phase, in proportion to their flow ratios."""
    greens = [number for number, state in enumerate(program.states) if is_green(state)]
    ratios = {number: max(0.01, ratio) for number, ratio in _ratios(net, junction, program, flows)}
    between_s = sum(
        float(phase["duration"])
        for number, phase in enumerate(program.phases)
        if number not in greens
    )
    lost_s = between_s + START_UP_S * len(greens)
    cycle_s = (1.5 * lost_s + 5) / (1 - min(FULLEST, sum(ratios.values())))
    green_s = min(LONGEST_S, max(SHORTEST_S, cycle_s)) - between_s
    total = sum(ratios.values())
    return {each: max(MIN_GREEN_S, round(green_s * ratios[each] / total)) for each in greens}


def _ratios(
    net: SumoNet, junction: JunctionEntry, program: Program, flows: Flows
) -> Iterator[tuple[int, float]]:
    """Yield per green phase the largest flow of a lane that it is the best phase of.

    A movement's flow is shared by its lanes; a lane counts in the phase that gives green to the
    most of its links, and there in the first.
    """
    links = [link for link in net.links[junction.id] if link.lane in net.lanes and not link.walked]
    ways = Counter({(net.lanes[link.lane].edge, link.to_edge, link.lane) for link in links})
    lanes_of = Counter((start, end) for start, end, _ in ways)
    loads: Counter[str] = Counter()
    for start, end, lane in ways:
        loads[lane] += flows.get((start, end), 0.0) / lanes_of[start, end]  # type: ignore[assignment]
    greens = [number for number, state in enumerate(program.states) if is_green(state)]
    critical = dict.fromkeys(greens, 0.0)
    for lane, load in loads.items():
        indices = [link.index for link in links if link.lane == lane]
        best = max(greens, key=lambda each: sum(program.states[each][i] in "Gg" for i in indices))
        critical[best] = max(critical[best], load / SATURATION_FLOW)
    yield from critical.items()


def is_green(state: str) -> bool:
    """Return whether a state shows green to someone and is no change from one phase to another."""
    return bool(set(state) & set("Gg")) and not set(state) & UNGREEN


def _element(signal: str, kind: str, program: Program, phases: Iterator[dict[str, str]]) -> str:
    logic = ET.Element("tlLogic", id=signal, type=kind, programID=NAME, offset=program.offset)
    for phase in phases:
        ET.SubElement(logic, "phase", phase)
    return ET.tostring(logic, encoding="unicode")
