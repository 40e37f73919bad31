"""Any network with its user's routes: times are kept, controllers run, errors are sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

import libsumo

from models.networks.shipped import NET_FILE
from models.simulation.city.environment import CityEnvironment
from models.simulation.city.episode import CONTROLLERS
from models.simulation.city.scenario import CityScenario, InvalidScenarioError
from models.sumo.importing import import_network

BEGIN_S, END_S = 3600, 4200
WAYS = (("west_to_station", "park_to_east"), ("station_south_to_station", "station_to_west"))


def scenario_with(folder: Path, trips: str) -> CityScenario:
    routes = folder / "town.rou.xml"
    routes.write_text(f"<routes>{trips}</routes>")
    network, _ = import_network(NET_FILE)
    return CityScenario(network, NET_FILE, (routes,), BEGIN_S, END_S)


@pytest.fixture
def scenario(tmp_path):
    trips = "".join(
        f'<trip id="{second}_{start}" depart="{second}" from="{start}" to="{end}"/>'
        for second in range(BEGIN_S, END_S, 12)
        for start, end in WAYS
    )
    return scenario_with(tmp_path, trips)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_controller_runs_the_hour_and_counts_every_vehicle(scenario, controller):
    metrics = CONTROLLERS[controller](scenario, 1)
    assert metrics.demanded == 100
    assert 50 < metrics.arrived <= 100
    assert 0 < metrics.time_loss_s < metrics.travel_s


def test_the_same_seed_makes_the_same_run(scenario):
    runs = [CONTROLLERS["greedy"](scenario, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_change_shows_yellow_and_all_red_for_the_scenarios_times(scenario, monkeypatch):
    scenario = replace(scenario, decision_s=12, yellow_s=4, all_red_s=2)
    station = next(each for each in scenario.network.junctions if each.id == "265580972")
    shown: list[tuple[float, str]] = []
    show = libsumo.trafficlight.setRedYellowGreenState

    def record(signal: str, state: str) -> None:
        if signal == station.id:
            shown.append((libsumo.simulation.getTime() - BEGIN_S, state))
        show(signal, state)

    monkeypatch.setattr(libsumo.trafficlight, "setRedYellowGreenState", record)
    with CityEnvironment(scenario) as environment:
        environment.reset(1)
        environment.step({station.id: 1})
    arterial, street = (phase.state or "" for phase in station.phases)
    red = "r" * len(street)
    assert [second for second, _ in shown] == [0, 4, 6]
    assert [state for _, state in shown[1:]] == [red, street]
    assert set(shown[0][1]) == {"y", "r"}
    assert arterial != street


def test_observations_are_laid_out_as_those_that_are_served(scenario):
    with CityEnvironment(scenario) as environment:
        observations = environment.reset(1)
        for junction in scenario.network.junctions:
            size = len(junction.phases) + 1 + len(junction.lanes)
            assert observations[junction.id].shape == (size,)
        with pytest.raises(ValueError, match="phase 9 is not one of"):
            environment.step({"265580972": 9})


def test_vehicles_that_still_drive_are_observed_where_the_scenario_counts_all(scenario):
    seen = {}
    for counts in ("standing", "all"):
        with CityEnvironment(replace(scenario, counts=counts)) as environment:
            environment.reset(1)
            for _ in range(5):
                observations = environment.step({})
            seen[counts] = sum(float(each.sum()) for each in observations.values())
    assert seen["all"] > seen["standing"]


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
        CONTROLLERS["fixed time"](scenario, 1)
    assert said in str(told.value)
    assert "\n" not in str(told.value)
