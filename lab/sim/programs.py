"""Programs that SUMO runs at a net's signals: its actuated controls, and Webster's fixed times.

Source: https://sumo.dlr.de/docs/Simulation/Traffic_Lights.html, "Actuated Traffic Lights".
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import libsumo
import numpy as np
from numpy.typing import NDArray

from lab.net.net import SumoNet
from lab.net.program import Program, text_of
from lab.processes import RunFolder, in_fresh_process
from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.environment import layers_of
from lab.sim.scenario import Scenario
from lab.sim.simulator import drive, sumo_errors
from lab.sim.trips import read_routes
from lab.sim.webster import Flows, green_phases, green_times_s
from models.signals.safety import SafetyLayer, Shown
from models.signals.states import YELLOW_S

NAME = "greenwave"
MIN_GREEN_S, MAX_GREEN_S = 5, 50  # SUMO's defaults, where the net's own program says nothing
FLOWS_SEED = 0  # no evaluation uses it
HALVINGS = 30  # of a search by bisection

Floats = NDArray[np.float64]


class Programs(NamedTuple):
    """Programs as ``tlLogic`` elements, in XML; signals without one run that of the net."""

    elements: tuple[str, ...] = ()


def own_programs(scenario: Scenario) -> Programs:
    """Return what lets SUMO run the net's own programs: nothing, or a switch to those named."""
    if scenario.program is None:
        return Programs()
    programs = scenario.sumo_net.programs
    switch = ET.Element("WAUT", id=NAME, refTime="0", startProg=scenario.program)
    signals = [
        ET.Element("wautJunction", wautID=NAME, junctionID=each.id)
        for each in scenario.network.junctions
        if programs[each.id][-1].id == scenario.program
    ]
    return Programs(tuple(ET.tostring(each, encoding="unicode") for each in (switch, *signals)))


@lru_cache(maxsize=8)
def actuated(scenario: Scenario, kind: Literal["actuated", "delay_based"]) -> Programs:
    """Return the net's own programs with green times that follow the traffic.

    SUMO shows the first green of a run for its duration: that is shortened to the minimum green.

    In a guarded scenario, the changes between the greens are those of the safety layer. The
    longest greens have Webster's proportions, and are as long as the layer's longest red allows.
    """
    net = scenario.sumo_net
    layers = layers_of(scenario) if scenario.guarded else {}
    elements = []
    for junction in scenario.network.junctions:
        program = net.programs[junction.id][-1]
        phases = _own_phases(program)
        if layers:
            shares = _webster_shares(net, junction.id, flows_of(scenario))
            phases = _guarded_phases(layers[junction.id], shares)
        elements.append(program_element(junction.id, kind, program.offset, phases, free_id(net)))
    return Programs(tuple(elements))


def _own_phases(program: Program) -> Iterator[dict[str, str]]:
    greens = green_phases(program)
    for number, phase in enumerate(program.phases):
        if number in greens:
            bounded = {"minDur": f"{MIN_GREEN_S}", "maxDur": f"{MAX_GREEN_S}"} | phase
            yield bounded | {"duration": bounded["minDur"]}
        else:
            yield {"duration": phase["duration"], "state": phase["state"]}


def _webster_shares(net: SumoNet, signal: str, flows: Flows) -> dict[str, float]:
    """Return by state the green that Webster gives it."""
    states = net.programs[signal][-1].states
    greens = green_times_s(net, signal, flows)
    return {states[number]: float(seconds) for number, seconds in greens.items()}


def _guarded_phases(layer: SafetyLayer, shares: Mapping[str, float]) -> Iterator[dict[str, str]]:
    """Yield the greens in their order, each with the layer's change to the next one."""
    if len(layer.phases) == 1:
        yield {"duration": f"{MAX_GREEN_S}", "state": layer.phases[0]}
        return
    n_phases, shortest_s = len(layer.phases), YELLOW_S + min(layer.min_green_s)
    changes = []
    for each in range(n_phases):
        reds_s = [(each - phase) % n_phases * shortest_s for phase in range(n_phases)]
        shown = Shown(each, layer.min_green_s[each], reds_s)
        changes.append(layer.decide(shown, (each + 1) % n_phases).steps)
    between_s = sum(steps[-1].after_s for steps in changes)
    others_s = np.array(layer.max_red_s) - between_s
    weights = np.array([shares.get(state, MIN_GREEN_S) for state in layer.phases])
    most_s = longest_greens_s(weights, np.array(layer.min_green_s), others_s)
    for at, (green, steps) in enumerate(zip(layer.phases, changes, strict=True)):
        least_s = text_of(layer.min_green_s[at])
        yield {
            "duration": least_s,
            "state": green,
            "minDur": least_s,
            "maxDur": text_of(most_s[at]),
        }
        for step, following in pairwise(steps):
            yield {"duration": text_of(following.after_s - step.after_s), "state": step.state}


def longest_greens_s(shares: Floats, least_s: Floats, others_s: Floats) -> list[float]:
    """Return the longest greens in given proportions that keep each phase's longest red.

    Args:
        others_s: by phase, how long the others' greens may be together.
    """
    low, high = 0.0, MAX_GREEN_S / float(shares.min())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        greens_s = np.clip(middle * shares, least_s, MAX_GREEN_S)
        fits = (greens_s.sum() - greens_s <= others_s).all()
        low, high = (middle, high) if fits else (low, middle)
    longest_s = np.floor(high * shares).clip(least_s, MAX_GREEN_S)
    return [float(each) for each in longest_s]


@lru_cache(maxsize=8)
def webster(scenario: Scenario) -> Programs:
    """Return the net's own programs with cycle and splits for the flows of the scenario."""
    net = scenario.sumo_net
    flows = flows_of(scenario)
    elements = []
    for junction in scenario.network.junctions:
        program = net.programs[junction.id][-1]
        greens = green_times_s(net, junction.id, flows)
        phases = (
            {
                "duration": text_of(greens.get(number, float(phase["duration"]))),
                "state": phase["state"],
            }
            for number, phase in enumerate(program.phases)
        )
        made = program_element(junction.id, "static", program.offset, phases, free_id(net))
        elements.append(made)
    return Programs(tuple(elements))


def free_id(net: SumoNet) -> str:
    """Return an id that no program has, as an exported one may be among the user's files."""
    taken = {each.id for programs in net.programs.values() for each in programs}
    names = (NAME, *(f"{NAME}.{number}" for number in range(len(taken))))
    return next(name for name in names if name not in taken)


@lru_cache(maxsize=8)
def flows_of(scenario: Scenario) -> Flows:
    """Return the expected flows of a demand that is drawn, otherwise those of one run."""
    if isinstance(scenario.demand, DailyDemand):
        return scenario.demand.movement_flows(sum(scenario.counted_s) / 2)
    return in_fresh_process(partial(count_flows, scenario, FLOWS_SEED))


def count_flows(scenario: Scenario, seed: int) -> Flows:
    """Count vehicles per hour from each edge to the next, in a run of the net's own programs.

    All vehicles count with their whole routes, also those that have not departed at the end.
    """
    counts: Counter[tuple[str, str]] = Counter()
    with RunFolder() as folder:
        routes = Path(folder, "driven.xml")
        with sumo_errors(scenario):
            drive(scenario, seed, Path(folder), driven=routes)
            for vehicle in libsumo.simulation.getPendingVehicles():
                counts.update(pairwise(libsumo.vehicle.getRoute(vehicle)))
            libsumo.close()
        for _, route in read_routes(routes):
            counts.update(pairwise(route.attrib["edges"].split()))
    hours = (scenario.end_s - scenario.begin_s) / HOUR_S
    return {pair: count / hours for pair, count in counts.items()}


def program_element(
    signal: str, kind: str, offset: str, phases: Iterable[dict[str, str]], name: str
) -> str:
    """Return a program as SUMO's ``tlLogic`` element, in XML."""
    logic = ET.Element("tlLogic", id=signal, type=kind, programID=name, offset=offset)
    for phase in phases:
        ET.SubElement(logic, "phase", phase)
    return ET.tostring(logic, encoding="unicode")
