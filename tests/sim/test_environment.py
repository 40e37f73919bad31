"""The environment in SUMO: signals as SUMO shows them, actions, observations, metrics, errors."""

from dataclasses import replace
from pathlib import Path

import libsumo
import numpy as np
import pytest

from lab.net.importing import import_network
from lab.net.net import load_net
from lab.sim.controllers import CONTROLS, KeepPhase, run
from lab.sim.environment import Environment
from lab.sim.scenario import InvalidScenarioError, RouteFiles, Scenario
from lab.sim.shipped import MORNING_RUSH_S, Breakdown, shipped_demand, shipped_scenario
from lab.sim.simulator import read_states, shown_states
from models.networks.shipped import NET_FILE, SHIPPED
from models.signals.safety import Limits
from models.signals.signal import read_signals
from tests.unit.models.signals.oracle import Bounds, judge

TEN_MINUTES = shipped_scenario(shipped_demand(MORNING_RUSH_S, 600))
QUARTER = shipped_scenario(shipped_demand(MORNING_RUSH_S, 900))
BEGIN_S, END_S = 3600, 4200
WAYS = (("west_to_station", "park_to_east"), ("station_south_to_station", "station_to_west"))
STATION, MILL = "265580972", "300839359"


def scenario_with(folder: Path, trips: str) -> Scenario:
    """Return a user's city: the shipped net as it is imported, with routes in a file."""
    routes = folder / "town.rou.xml"
    routes.write_text(f"<routes>{trips}</routes>")
    network, _ = import_network(NET_FILE)
    return Scenario(network, NET_FILE, RouteFiles((routes,)), BEGIN_S, END_S)


@pytest.fixture
def city(tmp_path):
    trips = "".join(
        f'<trip id="{second}_{start}" depart="{second}" from="{start}" to="{end}"/>'
        for second in range(BEGIN_S, END_S, 12)
        for start, end in WAYS
    )
    return scenario_with(tmp_path, trips)


def test_a_change_shows_yellow_and_all_red_for_the_scenarios_times(city, monkeypatch):
    scenario = replace(city, decision_s=12, yellow_s=4, all_red_s=2)
    station = next(each for each in scenario.network.junctions if each.id == STATION)
    shown: list[tuple[float, str]] = []
    show = libsumo.trafficlight.setRedYellowGreenState

    def record(signal: str, state: str) -> None:
        if signal == STATION:
            shown.append((libsumo.simulation.getTime() - BEGIN_S, state))
        show(signal, state)

    monkeypatch.setattr(libsumo.trafficlight, "setRedYellowGreenState", record)
    with Environment(scenario) as environment:
        environment.reset(1)
        environment.step({STATION: 1})
    arterial, street = (phase.state or "" for phase in station.phases)
    red = "r" * len(street)
    assert [second for second, _ in shown] == [0, 4, 6]
    assert [state for _, state in shown[1:]] == [red, street]
    assert set(shown[0][1]) == {"y", "r"}
    assert arterial != street


def test_actions_that_there_are_not_are_refused():
    with Environment(TEN_MINUTES) as environment:
        environment.reset(1)
        with pytest.raises(ValueError, match="phase 2 is not one of the 2 phases"):
            environment.step({MILL: 2})
        with pytest.raises(KeyError, match="nowhere"):
            environment.step({"nowhere": 0})


def test_observations_have_the_documented_sizes_and_range():
    with Environment(TEN_MINUTES) as environment:
        observations = environment.reset(1)
        for _ in range(20):
            observations = environment.step({})
        for junction in SHIPPED.junctions.values():
            observation = observations[junction.id]
            assert observation.shape == (junction.obs_size,)
            assert observation.min() >= 0
            assert observation.max() <= 1
            assert observation[0] == 1  # without actions the first phase stays
            assert observation[junction.n_phases] == 1
        assert observations[MILL][-1] > 0  # and the side street queues


def test_vehicles_that_still_drive_are_observed_where_the_scenario_counts_all(city):
    seen = {}
    for counts in ("standing", "all"):
        with Environment(replace(city, counts=counts)) as environment:
            environment.reset(1)
            for _ in range(5):
                observations = environment.step({})
            seen[counts] = sum(float(each.sum()) for each in observations.values())
    assert seen["all"] > seen["standing"]


def observed_after_ten(scenario: Scenario, seed: int) -> dict[str, np.ndarray]:
    with Environment(scenario) as environment:
        environment.reset(seed)
        return [environment.step({}) for _ in range(10)][-1]


def test_a_broken_detector_of_each_junction_reads_the_same_and_all_else_is_true():
    places = []
    for seed in (1, 1, 2):
        observed = observed_after_ten(replace(TEN_MINUTES, detector_reads=0.5), seed)
        true = observed_after_ten(TEN_MINUTES, seed)
        wrong = {name: np.flatnonzero(observed[name] != true[name]) for name in observed}
        for name, (place,) in wrong.items():
            assert observed[name][place] == 0.5
            assert place > SHIPPED.junctions[name].n_phases
        places.append({name: place for name, (place,) in wrong.items()})
    assert places[0] == places[1] != places[2]
    assert len(places[0]) == SHIPPED.n_agents


@pytest.mark.parametrize("kind", ["drawn demand", "route files"])
def test_the_same_seed_makes_the_same_run(city, kind):
    scenario = city if kind == "route files" else TEN_MINUTES
    runs = [run(scenario, seed, CONTROLS["greedy"](scenario)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_metrics_before_the_end_cover_what_has_passed():
    with Environment(TEN_MINUTES) as environment:
        environment.reset(1)
        queues = []
        for _ in range(24):
            environment.step({})
            (mill,) = [each for each in environment.scenario.network.junctions if each.id == MILL]
            queues.append(sum(environment.standing(lane.id) for lane in mill.lanes))
        metrics = environment.metrics()
    assert 0 < metrics.demanded < 200
    assert 0 < metrics.trip_s <= 120
    assert metrics.queues[MILL] == pytest.approx(np.mean(queues))


def test_behind_the_safety_layer_actuated_programs_show_no_conflict_and_every_phase(tmp_path):
    watched = tuple(shown_states(QUARTER, "shown.xml"))
    scenario = replace(QUARTER, guarded=True, elements=watched)
    run(scenario, 1, CONTROLS["actuated"](scenario), outputs=tmp_path)
    changes = list(read_states(tmp_path / "shown.xml"))
    bounds = Bounds(Limits().min_green_s, Limits().max_red_s)
    for junction, signal in read_signals(SHIPPED).items():
        shown = [each for each in changes if each.signal == junction]
        times_s = [*(each.time_s for each in shown), float(scenario.end_s)]
        judge(times_s, [*(each.state for each in shown), ""], signal, bounds)


def test_a_breakdown_closes_its_lane_for_its_time():
    demand = shipped_demand(MORNING_RUSH_S, 900)
    breakdown = Breakdown("center_to_park", 1, 0.5, demand.begin_s + 60, 400)
    scenario = shipped_scenario(demand, [breakdown])
    place = 0.5 * load_net(NET_FILE).lanes["center_to_park_1"].length_m
    blocked = []

    def look(*_: object) -> None:
        standing = [
            vehicle
            for vehicle in libsumo.lane.getLastStepVehicleIDs("center_to_park_1")
            if libsumo.vehicle.isStopped(vehicle)
        ]
        if standing:
            blocked.append(libsumo.simulation.getTime())
            assert libsumo.vehicle.getLanePosition(standing[0]) == pytest.approx(place, abs=2)

    run(scenario, 1, CONTROLS["max pressure"](scenario), look)
    assert blocked[-1] - blocked[0] == pytest.approx(400, abs=10)


@pytest.mark.parametrize(
    ("trip", "said"),
    [
        ('<trip id="a" depart="3605" from="nowhere" to="park_to_east"/>', "'nowhere'"),
        (
            '<vehicle id="a" depart="3605"><route edges="center_to_south center_to_mill"/>'
            "</vehicle>",
            "no valid route",
        ),
        ("<trip", ""),
    ],
    ids=["unknown edge", "no connection", "no XML"],
)
def test_routes_that_leave_the_network_are_named_in_one_sentence(tmp_path, trip, said):
    scenario = scenario_with(tmp_path, trip)
    with pytest.raises(InvalidScenarioError, match=r"cannot drive town\.rou\.xml on green") as told:
        run(scenario, 1, CONTROLS["fixed time"](scenario))
    assert said in str(told.value)
    assert "\n" not in str(told.value)


def test_vehicles_of_the_warm_up_and_the_drain_do_not_count_and_the_run_ends_when_all_have_left(
    tmp_path,
):
    trip = '<trip id="{0}" depart="{0}" from="west_to_station" to="park_to_east"/>'
    whole = scenario_with(tmp_path, "".join(map(trip.format, range(BEGIN_S, END_S, 20))))
    scenario = replace(whole, end_s=END_S + 900, warm_up_s=300, drain_s=900)
    with Environment(scenario) as environment:
        environment.reset(1)
        while not environment.is_over:
            environment.step({})
        assert END_S < environment.time_s < END_S + 900
        metrics = environment.metrics()
    assert metrics.demanded == metrics.arrived == 300 // 20
    assert 0 < metrics.served < 600 // 20
    warmed_up = run(replace(whole, warm_up_s=300), 1, lambda _: KeepPhase())
    assert warmed_up.demanded == 300 // 20
