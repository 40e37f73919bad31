"""The planner on one junction of two lanes, without SUMO."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.train import planner
from lab.train.planner import HORIZON_S, OVERRIDDEN_COST, _JunctionPlanner, _leaving, _MaximumRed
from models.networks.form import JunctionEntry
from models.networks.shipped import SHIPPED
from models.signals.safety import Limits, SafetyLayer, Shown, read_layers

DECISION_S = 5
LENGTH_M = 200.0
LANES = "north", "east"
JUNCTION = JunctionEntry.model_validate(
    {
        "id": "market",
        "agent_index": 0,
        "phases": [{"state": "Gr"}, {"state": "rG"}],
        "lanes": [{"id": lane, "capacity": 20} for lane in LANES],
        "links": [{"lane": lane, "to": "out"} for lane in LANES],
    }
)


@pytest.fixture
def planned(monkeypatch):
    """Return a function that plans for vehicles by lane, each at a distance and a speed."""

    def plan(
        north: list[tuple[float, float]],
        east: list[tuple[float, float]],
        may_change: bool = True,
        change_s: float = 5,
        maximum_red: _MaximumRed | None = None,
        reds_s: tuple[float, float] = (0, 0),
    ) -> SimpleNamespace:
        on_lanes = dict(zip(LANES, (north, east), strict=True))
        vehicles = {
            f"{lane} {number}": each
            for lane, on_lane in on_lanes.items()
            for number, each in enumerate(on_lane)
        }
        lane = SimpleNamespace(
            getLength=lambda lane: LENGTH_M,
            getLastStepVehicleIDs=lambda lane: [each for each in vehicles if lane in each],
        )
        vehicle = SimpleNamespace(
            getLanePosition=lambda each: LENGTH_M - vehicles[each][0],
            getSpeed=lambda each: vehicles[each][1],
        )
        monkeypatch.setattr(planner, "libsumo", SimpleNamespace(lane=lane, vehicle=vehicle))
        changes_s = change_s * (1 - np.eye(2))
        times = changes_s, np.full(2, 5.0), DECISION_S
        junction = _JunctionPlanner(JUNCTION, *times, maximum_red)
        costs = junction.plan(np.array([1, 0, may_change, 0, 0], np.float32), reds_s)
        return SimpleNamespace(junction=junction, costs=costs)

    return plan


def queue_of(number: int) -> list[tuple[float, float]]:
    return [(7.5 * place, 0.0) for place in range(number)]


@pytest.mark.parametrize(("north", "east", "phase"), [(0, 8, 1), (8, 0, 0), (6, 1, 0), (1, 12, 1)])
def test_the_longer_queue_gets_green(planned, north, east, phase):
    assert planned(queue_of(north), queue_of(east)).costs.argmin() == phase


def test_a_platoon_that_is_about_to_arrive_keeps_its_green(planned):
    platoon = [(60.0 + 12 * place, 13.0) for place in range(10)]
    assert planned(platoon, queue_of(1)).costs.argmin() == 0
    assert planned([], queue_of(1)).costs.argmin() == 1


def test_a_phase_that_must_stay_costs_nothing_and_all_others_infinity(planned):
    assert planned([], queue_of(9), may_change=False).costs.tolist() == [0.0, np.inf]


def test_a_change_costs_more_the_longer_it_takes(planned):
    costs = [planned(queue_of(4), queue_of(6), change_s=change).costs[1] for change in (3, 5, 7)]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_vehicles_arrive_when_they_reach_the_stop_line_and_those_that_stand_at_once(planned):
    made = planned([(130.0, 13.0)], queue_of(2))
    arrivals = made.junction._arrivals()
    seen = arrivals[:3]  # later ones may be such as are not on the lane yet
    np.testing.assert_array_equal(seen, [[0, 2], [0, 0], [1, 0]])
    assert arrivals.shape == (HORIZON_S / DECISION_S, 2)
    assert 0 < arrivals[-1, 0] < 1


def test_a_change_takes_green_and_the_first_seconds_after_it():
    changes_s = 5 * (1 - np.eye(2))
    leaving = _leaving(np.eye(2), changes_s, DECISION_S)
    np.testing.assert_allclose(leaving[0, 0], [[2.5, 0]] * 3)
    # half a vehicle in yellow; green after 5 s, of which the first vehicle needs 2 s
    np.testing.assert_allclose(leaving[0, 1], [[0.5, 0], [0, 1.5], [0, 2.5]])


def test_a_phase_that_the_layer_would_force_gets_green_in_time(planned):
    layer = SafetyLayer(("Gr", "rG"), ((None, 5), (5, None)), Limits(max_red_s=60))
    rule = _MaximumRed(layer)
    for waited_s, phase in ((30, 0), (55, 1)):
        costs = planned(queue_of(9), [], maximum_red=rule, reds_s=(0, waited_s)).costs
        assert costs.argmin() == phase
    assert costs[0] > OVERRIDDEN_COST


@pytest.mark.parametrize("junction", SHIPPED.ids)
def test_the_maximum_red_is_that_of_the_layer(junction):
    layer = read_layers(Limits(), SHIPPED)[junction]
    rule, n_phases = _MaximumRed(layer), len(layer.phases)
    rng = np.random.default_rng(1)
    forced = []
    for _ in range(500):
        shown, asked = rng.integers(n_phases, size=2)
        reds_s = rng.uniform(60, 125, n_phases)
        reds_s[shown] = 0
        made = layer.decide(Shown(int(shown), 20.0, tuple(reds_s)), int(asked))
        replaces = rule.replaces(reds_s, shown, asked)  # also where it forces what is asked for
        assert replaces if made.rule == "maximum_red" else replaces or made.phase == asked
        forced.append(made.rule == "maximum_red")
    assert 0.05 < np.mean(forced) < 0.95
