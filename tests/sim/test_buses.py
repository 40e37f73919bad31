"""A bus counts as several vehicles where the scenario asks for it: it waits less, others more."""

from dataclasses import replace

import libsumo
import numpy as np
import pytest

from lab.sim.controllers import CONTROLS, run
from lab.sim.environment import Environment
from lab.sim.scenario import Scenario
from lab.train.rewards import Rewards
from tests.sim.towns import Town

WEIGHT = 20.0


@pytest.fixture(scope="module")
def scenario(town: Town) -> Scenario:
    """Return the town with twelve buses from a side without cars."""
    buses = "".join(
        f'<trip id="bus{second}" type="bus" depart="{second}" from="top0A1" to="A0bottom0"/>'
        for second in range(15, 600, 50)
    )
    text = town.routes.read_text().replace("<routes>", '<routes><vType id="bus" vClass="bus"/>')
    town.routes.write_text(by_departure(text.replace("</routes>", f"{buses}</routes>")))
    return town.scenario


def by_departure(text: str) -> str:
    head, *trips = text.removesuffix("</routes>").split("<trip ")
    trips.sort(key=lambda trip: int(trip.partition('depart="')[2].partition('"')[0]))
    return "".join([head, *(f"<trip {trip}" for trip in trips), "</routes>"])


def test_a_bus_is_observed_as_its_weight(scenario):
    counted = {}
    for weight in (1.0, WEIGHT):
        with Environment(replace(scenario, bus_weight=weight)) as environment:
            environment.reset(1)
            for _ in range(20):
                environment.step(dict.fromkeys(environment.phases, 1))  # buses have red
            lanes = [lane.id for each in scenario.network.junctions for lane in each.lanes]
            buses = {
                lane: sum(
                    libsumo.vehicle.getVehicleClass(each) == "bus"
                    for each in libsumo.lane.getLastStepVehicleIDs(lane)
                )
                for lane in lanes
            }
            counted[weight] = np.array([environment.detected(each, "all") for each in lanes])
            assert counted[weight].sum() > sum(buses.values()) > 0
    more = counted[WEIGHT] - counted[1.0]
    np.testing.assert_allclose(more, [(WEIGHT - 1) * buses[lane] for lane in lanes])


def test_greedy_serves_buses_first(scenario):
    losses = {
        weight: run(replace(scenario, bus_weight=weight), 1, CONTROLS["greedy"](scenario)).classes[
            "bus"
        ]
        for weight in (1.0, WEIGHT)
    }
    assert losses[1.0][0] == losses[WEIGHT][0] == 12
    assert losses[WEIGHT][1] < losses[1.0][1]


def test_rewards_add_up_to_the_weighted_delay(scenario):
    total_s = 0.0
    with Environment(replace(scenario, bus_weight=WEIGHT)) as environment:
        environment.reset(1)
        rewards = Rewards(environment, team_share=0.0)
        while not environment.is_over:
            environment.step(dict.fromkeys(environment.phases, int(total_s) % 2))
            total_s -= scenario.decision_s * rewards.look().sum()
        metrics = environment.metrics()
    weighed = metrics.demanded + (WEIGHT - 1) * metrics.classes["bus"][0]
    assert metrics.weighed_delay_s(0, WEIGHT) != metrics.delay_s
    assert total_s == pytest.approx(metrics.weighed_delay_s(0, WEIGHT) * weighed, rel=0.08)
