"""Demand is the same for the same seed, differs for another, and follows the day's profile."""

from __future__ import annotations

from collections import defaultdict

import pytest

from models.simulation.demand import (
    ENTERING,
    HOUR_S,
    WEEKDAY,
    Trip,
    expected_rate,
    make_demand,
    make_flows,
    make_strange,
)
from models.simulation.road_network import RoadNetwork, read_network

RUSH = (7 * HOUR_S, 8 * HOUR_S)


@pytest.fixture(scope="module")
def network() -> RoadNetwork:
    return read_network()


@pytest.fixture(scope="module")
def rush_hour(network: RoadNetwork) -> list[Trip]:
    return make_demand(network, 1, *RUSH)


def test_same_seed_gives_the_same_trips(network: RoadNetwork, rush_hour: list[Trip]) -> None:
    assert make_demand(network, 1, *RUSH) == rush_hour


def test_another_seed_gives_other_trips(network: RoadNetwork, rush_hour: list[Trip]) -> None:
    assert make_demand(network, 2, *RUSH) != rush_hour


def test_trips_of_a_window_do_not_depend_on_where_it_begins(
    network: RoadNetwork, rush_hour: list[Trip]
) -> None:
    begin, end = 7 * HOUR_S + 437, 7 * HOUR_S + 2111
    inside = [trip for trip in rush_hour if begin <= trip.depart_s < end]
    assert make_demand(network, 1, begin, end) == inside


def test_trips_are_ordered_and_drive_existing_ways(
    network: RoadNetwork, rush_hour: list[Trip]
) -> None:
    assert rush_hour == sorted(rush_hour, key=lambda trip: trip.depart_s)
    for route in {trip.route for trip in rush_hour}:
        assert route[0] in network.entries
        assert route[-1] in network.exits


def test_number_of_trips_is_what_the_rates_promise(
    network: RoadNetwork, rush_hour: list[Trip]
) -> None:
    expected = sum(expected_rate(flow, 7.5 * HOUR_S) for flow in make_flows(network))
    assert len(rush_hour) == pytest.approx(expected, rel=0.1)


def test_scale_multiplies_demand(network: RoadNetwork, rush_hour: list[Trip]) -> None:
    doubled = make_demand(network, 1, *RUSH, scale=2.0)
    assert len(doubled) == pytest.approx(2 * len(rush_hour), rel=0.1)


def test_morning_and_evening_rush_exceed_noon_and_night() -> None:
    morning, noon, evening, night = (WEEKDAY.at(hour * HOUR_S)[0] for hour in (8, 12, 17, 3))
    assert min(morning, evening) > noon > night


def test_flows_of_an_entry_sum_to_what_enters_there(network: RoadNetwork) -> None:
    flows = make_flows(network)
    for start, (morning, evening) in ENTERING.items():
        own = [flow for flow in flows if flow.start == start]
        assert sum(flow.morning for flow in own) == pytest.approx(morning)
        assert sum(flow.evening for flow in own) == pytest.approx(evening)


def test_strange_traffic_has_other_turns_and_entries_and_as_many_vehicles(
    network: RoadNetwork,
) -> None:
    usual = make_flows(network)
    strange = make_strange(usual, 1)
    assert strange == make_strange(usual, 1) != make_strange(usual, 2)
    assert [flow[:2] for flow in strange] == [flow[:2] for flow in usual]
    for hours in ("morning", "evening"):
        total = [sum(getattr(flow, hours) for flow in flows) for flows in (usual, strange)]
        assert total[1] == pytest.approx(total[0])
    before: defaultdict[str, float] = defaultdict(float)
    after: defaultdict[str, float] = defaultdict(float)
    for one, other in zip(usual, strange, strict=True):
        before[one.start] += one.morning
        after[other.start] += other.morning
    ratios = [after[start] / before[start] for start in ENTERING]
    assert 1.1 < max(ratios) / min(ratios) < 1.4 / 0.6 + 0.01
    assert any(abs(a.morning / b.morning - 1) > 0.5 for a, b in zip(strange, usual, strict=True))
    trips = make_demand(network, 1, *RUSH, strange=1)
    assert {trip.route for trip in trips} <= {trip.route for trip in make_demand(network, 1, *RUSH)}
