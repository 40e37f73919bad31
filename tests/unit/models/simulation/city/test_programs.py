"""Programs that are made of the net's own: states stay, times follow the traffic."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from models.networks.shipped import NET_FILE
from models.simulation.city.programs import (
    LONGEST_S,
    MAX_GREEN_S,
    MIN_GREEN_S,
    actuated,
    green_times_s,
    webster,
)
from models.sumo.importing import import_network
from models.sumo.net import read_sumo_net

NET = read_sumo_net(NET_FILE)
NETWORK = import_network(NET_FILE)[0]
STATION = "265580972"


@pytest.mark.parametrize("kind", ["actuated", "delay_based"])
def test_actuated_programs_show_the_nets_states_within_bounds_of_green(kind):
    for element, junction in zip(actuated(NET, NETWORK, kind), NETWORK.junctions, strict=True):
        logic = ET.fromstring(element)
        assert (logic.get("id"), logic.get("type")) == (junction.id, kind)
        phases = list(logic)
        states = NET.programs[junction.id][-1].states
        assert tuple(phase.get("state") for phase in phases) == states
        for phase in phases:
            bounds = phase.get("minDur"), phase.get("maxDur")
            is_yellow = "y" in (phase.get("state") or "")
            expected = (None, None) if is_yellow else (f"{MIN_GREEN_S}", f"{MAX_GREEN_S}")
            assert bounds == expected


def test_webster_gives_green_in_proportion_to_the_critical_lanes():
    junction = next(each for each in NETWORK.junctions if each.id == STATION)
    program = NET.programs[STATION][-1]
    flows = {("west_to_station", "station_to_mill"): 1200.0}
    side = {("station_south_to_station", "station_to_west"): 300.0}
    arterial, street = green_times_s(NET, junction, program, flows | side).values()
    assert arterial == pytest.approx(2 * street, abs=2)  # 600 and 300 vehicles per lane
    full = green_times_s(NET, junction, program, dict.fromkeys(flows | side, 9000.0))
    assert sum(full.values()) + 6 == pytest.approx(LONGEST_S, abs=1)


def test_without_any_flow_every_phase_still_gets_green():
    junction = next(each for each in NETWORK.junctions if each.id == STATION)
    times = green_times_s(NET, junction, NET.programs[STATION][-1], {})
    assert min(times.values()) >= MIN_GREEN_S
    assert len(list(webster(NET, NETWORK, {}))) == len(NETWORK.junctions)


def test_offsets_of_the_own_program_stay():
    program = replace(NET.programs[STATION][-1], offset="17")
    net = replace(NET, programs=NET.programs | {STATION: [program]})
    elements = {each.get("id"): each for each in map(ET.fromstring, webster(net, NETWORK, {}))}
    assert elements[STATION].get("offset") == "17"
