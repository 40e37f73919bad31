"""A public scenario, where it is at hand: imported with the sizes that are known, and driven."""

import os
from pathlib import Path

import pytest

from lab.evaluate.cases import RESCO, STUDIES
from lab.evaluate.jobs import measured
from lab.sim.controllers import CONTROLS, run
from lab.sim.scenario import Scenario
from lab.train.planner import Planner

FOLDER = Path(os.environ.get("RESCO", Path(__file__).parents[2].parent / "shared/resco"))

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="RESCO's scenarios are not there; name their folder with RESCO="
)

SIZES = {  # signals, most green phases, most incoming lanes
    "grid4x4": (16, 8, 12),
    "arterial4x4": (16, 5, 6),
    "cologne1": (1, 4, 8),
    "cologne3": (3, 4, 8),
    "cologne8": (8, 4, 6),
    "ingolstadt1": (1, 3, 7),
    "ingolstadt7": (7, 4, 12),
    "ingolstadt21": (21, 4, 14),
}


def scenario_of(folder: Path, name: str) -> Scenario:
    traffic = {each.name: each for each in STUDIES[RESCO]["compared"].traffic}
    return traffic[name].scenario(1, folder)


@pytest.mark.parametrize("name", SIZES)
def test_maps_are_imported_with_their_sizes(name):
    junctions = scenario_of(FOLDER, name).network.junctions
    phases = max(len(each.phases) for each in junctions)
    assert (len(junctions), phases, max(len(each.lanes) for each in junctions)) == SIZES[name]


def test_signals_have_the_times_that_resco_gives_each_map():
    times = {name: scenario_of(FOLDER, name) for name in SIZES}
    decisions = {name: (each.decision_s, each.yellow_s) for name, each in times.items()}
    assert decisions == dict.fromkeys(SIZES, (10, 3)) | {"arterial4x4": (5, 2)}


def test_measures_follow_the_definitions_of_rescos_code():
    """Queues have what stands or has stood, and times begin at departures."""
    scenario = scenario_of(FOLDER, "cologne1")
    control = CONTROLS["fixed time"](scenario)
    made = measured(scenario, 1, control, "fixed time")
    (standing,) = made.queues.values()
    assert made.resco_queue is not None
    assert standing / 2 < made.resco_queue < standing
    metrics = run(scenario, 1, control)
    assert metrics.departed == metrics.demanded == 2015
    assert metrics.resco_trip_s is not None
    lost_before_departure_s = metrics.trip_s - metrics.resco_trip_s
    assert metrics.resco_waiting_s == pytest.approx(metrics.waiting_s - lost_before_departure_s)
    assert lost_before_departure_s > 0


def test_all_vehicles_of_the_hour_count_and_greedy_is_better_than_the_nets_programs():
    scenario = scenario_of(FOLDER, "ingolstadt1")
    fixed, greedy = (
        run(scenario, 1, CONTROLS[each](scenario)) for each in ("fixed time", "greedy")
    )
    assert fixed.demanded == greedy.demanded == 1716
    assert greedy.delay_s < fixed.delay_s


def test_nobody_waits_for_ever_on_stubs_too_short_for_a_vehicle():
    scenario = scenario_of(FOLDER, "ingolstadt7")
    for control in (CONTROLS["greedy"](scenario), CONTROLS["max pressure"](scenario), Planner):
        assert run(scenario, 1, control).delay_s < 45
