"""Programs that SUMO runs at a net's signals: its actuated controls, and Webster's fixed times.

Source: https://sumo.dlr.de/docs/Simulation/Traffic_Lights.html, "Actuated Traffic Lights".
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import libsumo

from models.simulation.environment import sumo_command, sumo_errors
from models.simulation.scenario import Scenario
from models.simulation.webster import Flows, green_phases, green_times_s
from models.sumo.net import load_net
from models.sumo.program import Program

NAME = "greenwave"
MIN_GREEN_S, MAX_GREEN_S = 5, 50  # SUMO's defaults, where the net's own program says nothing
FLOWS_SEED = 0  # no evaluation uses it
HOUR_S = 3600


class Programs(NamedTuple):
    """Programs as ``tlLogic`` elements, in XML; signals without one run that of the net."""

    elements: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def actuated(
    scenario: Scenario, kind: Literal["actuated", "delay_based"], begin_at_minimum: bool = False
) -> Programs:
    """Return the net's own programs with green times that follow the traffic.

    Args:
        begin_at_minimum: SUMO shows the first green of a run for its duration. Shorten that, and
            with it where the program begins, to the minimum green.
    """
    net = load_net(scenario.net)
    elements = []
    for junction in scenario.network.junctions:
        program = net.programs[junction.id][-1]
        greens = green_phases(program)
        phases = (
            _bounded(phase, begin_at_minimum)
            if number in greens
            else {"duration": phase["duration"], "state": phase["state"]}
            for number, phase in enumerate(program.phases)
        )
        elements.append(_element(junction.id, kind, program, phases))
    return Programs(tuple(elements))


def _bounded(phase: dict[str, str], begin_at_minimum: bool) -> dict[str, str]:
    bounded = {"minDur": f"{MIN_GREEN_S}", "maxDur": f"{MAX_GREEN_S}"} | phase
    return bounded | {"duration": bounded["minDur"]} if begin_at_minimum else bounded


@lru_cache(maxsize=8)
def webster(scenario: Scenario) -> Programs:
    """Return the net's own programs with cycle and splits for the flows of the scenario."""
    net, flows = load_net(scenario.net), count_flows(scenario, FLOWS_SEED)
    elements = []
    for junction in scenario.network.junctions:
        program = net.programs[junction.id][-1]
        greens = green_times_s(net, junction.id, flows)
        phases = (
            {
                "duration": f"{greens.get(number, float(phase['duration'])):.0f}",
                "state": phase["state"],
            }
            for number, phase in enumerate(program.phases)
        )
        elements.append(_element(junction.id, "static", program, phases))
    return Programs(tuple(elements))


def count_flows(scenario: Scenario, seed: int) -> Flows:
    """Count vehicles per hour from each edge to the next, in one run of the net's own programs.

    All vehicles count with their whole routes, also those that have not departed at the end.
    """
    counts: Counter[tuple[str, str]] = Counter()
    with TemporaryDirectory(prefix="greenwave-") as folder:
        routes = Path(folder, "driven.xml")
        with sumo_errors(scenario):
            libsumo.start(sumo_command(scenario, seed, Path(folder), driven=routes))
            libsumo.simulationStep(scenario.end_s)
            for vehicle in libsumo.simulation.getPendingVehicles():
                counts.update(pairwise(libsumo.vehicle.getRoute(vehicle)))
            libsumo.close()
        for _, element in ET.iterparse(routes):
            if element.tag == "vehicle":
                driven = element.findall(".//route")[-1:]
                for route in driven:
                    counts.update(pairwise(route.attrib["edges"].split()))
                element.clear()
    hours = (scenario.end_s - scenario.begin_s) / HOUR_S
    return {pair: count / hours for pair, count in counts.items()}


def _element(signal: str, kind: str, program: Program, phases: Iterable[dict[str, str]]) -> str:
    logic = ET.Element("tlLogic", id=signal, type=kind, programID=NAME, offset=program.offset)
    for phase in phases:
        ET.SubElement(logic, "phase", phase)
    return ET.tostring(logic, encoding="unicode")
