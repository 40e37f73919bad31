"""Webster's fixed times, and programs that are made of the net's own."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from lab.net.net import load_net
from lab.sim import programs
from lab.sim.daily_demand import HOUR_S
from lab.sim.programs import MAX_GREEN_S, MIN_GREEN_S, Programs, actuated, longest_greens_s, webster
from lab.sim.scenario import Scenario
from lab.sim.shipped import shipped_demand, shipped_scenario
from lab.sim.webster import (
    LONGEST_S,
    SHORTEST_S,
    FixedTime,
    critical_lanes,
    critical_movements,
    cycle_s,
    green_times_s,
    phase_times_s,
)
from models.networks.shipped import NET_FILE, SHIPPED
from models.signals.safety import Limits
from models.signals.signal import read_signals

NET = load_net(NET_FILE)
STATION = "265580972"
ARTERIAL = {("west_to_station", "station_to_mill"): 1200.0}
SIDE = {("station_south_to_station", "station_to_west"): 300.0}
LEFT = {("west_to_station", "station_to_station_north"): 300.0}


@pytest.fixture
def scenario() -> Scenario:
    return shipped_scenario(shipped_demand(12 * HOUR_S))


def elements_of(made: Programs) -> dict[str, ET.Element]:
    return {element.attrib["id"]: element for element in map(ET.fromstring, made.elements)}


def test_the_cycle_is_websters_formula_within_bounds():
    assert cycle_s([0.3, 0.3], 8) == pytest.approx((1.5 * 8 + 5) / 0.4)
    assert cycle_s([0.3, 0.3], 16) > cycle_s([0.3, 0.3], 8)
    assert cycle_s([0.0, 0.0], 8) == SHORTEST_S
    assert cycle_s([0.9, 0.9], 8) == LONGEST_S


def test_phases_share_the_cycle_by_flow_in_whole_steps_and_keep_their_minimum():
    assert phase_times_s([0.6, 0.3], 5) == (80, 40)
    assert phase_times_s([0.5, 0.0], 5)[1] == 10


def test_the_critical_lane_has_its_share_of_each_movement():
    assert critical_lanes(NET, STATION, ARTERIAL | SIDE) == pytest.approx(
        {0: 600 / 1800, 2: 300 / 1800}
    )
    assert critical_lanes(NET, STATION, ARTERIAL | LEFT)[0] == pytest.approx(900 / 1800)


def test_an_opposed_turn_counts_threefold_and_an_approach_as_a_whole():
    assert critical_movements(NET, STATION, ARTERIAL | SIDE) == pytest.approx(
        [600 / 1800, 300 / 1800]
    )
    assert critical_movements(NET, STATION, LEFT)[0] == pytest.approx(900 / 1800)
    assert critical_movements(NET, STATION, ARTERIAL | LEFT)[0] == pytest.approx(1050 / 1800)


def test_greens_are_in_proportion_to_the_critical_lanes():
    arterial, street = green_times_s(NET, STATION, ARTERIAL | SIDE).values()
    assert arterial == pytest.approx(2 * street, abs=2)
    full = green_times_s(NET, STATION, dict.fromkeys(ARTERIAL | SIDE, 9000.0))
    assert sum(full.values()) + 6 == pytest.approx(LONGEST_S, abs=1)


def test_without_any_flow_every_phase_still_gets_green():
    assert min(green_times_s(NET, STATION, {}).values()) >= MIN_GREEN_S


def test_fixed_time_shows_every_phase_and_longer_greens_on_the_arterial():
    controller = FixedTime(shipped_demand(8 * HOUR_S), SHIPPED.ids, 5)
    shown = [controller.act(dict.fromkeys(SHIPPED.ids, ()))[STATION] for _ in range(100)]  # type: ignore[arg-type]
    assert set(shown) == {0, 1}
    assert shown.count(0) > shown.count(1)


@pytest.mark.parametrize("kind", ["actuated", "delay_based"])
def test_actuated_programs_show_the_nets_states_within_bounds_of_green(scenario, kind):
    for signal, logic in elements_of(actuated(scenario, kind)).items():
        assert logic.get("type") == kind
        phases = list(logic)
        states = NET.programs[signal][-1].states
        assert tuple(phase.get("state") for phase in phases) == states
        assert phases[0].get("duration") == f"{MIN_GREEN_S}"
        for phase in phases:
            bounds = phase.get("minDur"), phase.get("maxDur")
            is_yellow = "y" in (phase.get("state") or "")
            expected = (None, None) if is_yellow else (f"{MIN_GREEN_S}", f"{MAX_GREEN_S}")
            assert bounds == expected
    assert set(elements_of(actuated(scenario, kind))) == set(SHIPPED.ids)


@pytest.mark.parametrize(
    ("shares", "others_s", "longest_s"),
    [
        ([20, 10], [60, 60], [50, 50]),  # as long as SUMO allows
        ([20, 10], [60, 24], [24, 12]),  # the second may wait for 24 s
        ([20, 10], [10, 24], [20, 10]),
        ([20, 1], [60, 24], [24, 5]),  # nothing below the shortest green
    ],
)
def test_longest_greens_have_websters_proportions_within_the_longest_reds(
    shares, others_s, longest_s
):
    arrays = map(np.array, (shares, [5, 5], others_s))
    assert longest_greens_s(*arrays) == longest_s


def test_a_guarded_actuated_program_keeps_the_maximum_red_at_its_longest_greens(scenario):
    limits, signals = Limits(), read_signals(SHIPPED)
    for signal, logic in elements_of(actuated(replace(scenario, guarded=True), "actuated")).items():
        greens = [phase for phase in logic if phase.get("maxDur")]
        assert tuple(phase.get("state") for phase in greens) == signals[signal].phases
        assert {phase.get("minDur") for phase in greens} == {f"{MIN_GREEN_S}"}
        longest_s = [float(phase.get("maxDur", "nan")) for phase in greens]
        changes = [phase for phase in logic if not phase.get("maxDur")]
        changes_s = sum(float(phase.get("duration", "nan")) for phase in changes)
        assert sum(longest_s) - min(longest_s) + changes_s <= limits.max_red_s


def test_a_guarded_actuated_program_of_a_junction_with_one_phase_is_always_green(scenario):
    first, *others = scenario.network.junctions
    alone = first.model_copy(update={"phases": first.phases[:1]})
    network = scenario.network.model_copy(update={"junctions": (alone, *others)})
    made = elements_of(actuated(replace(scenario, network=network, guarded=True), "actuated"))
    assert [phase.get("state") for phase in made[first.id]] == [first.phases[0].state]


def test_websters_programs_keep_states_offsets_and_the_times_between_greens(scenario, monkeypatch):
    program = replace(NET.programs[STATION][-1], offset="17")
    net = replace(NET, programs=NET.programs | {STATION: [program]})
    monkeypatch.setattr(Scenario, "sumo_net", net)
    monkeypatch.setattr(programs, "count_flows", lambda scenario, seed: ARTERIAL | SIDE)
    logic = elements_of(webster.__wrapped__(scenario))[STATION]
    assert logic.get("offset") == "17"
    assert tuple(phase.get("state") for phase in logic) == program.states
    assert [phase.get("duration") for phase in logic][1::2] == ["3", "3"]
