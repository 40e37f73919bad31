"""Demand is the same for the same seed, differs for another, and follows the day's profile."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from lab.net.net import load_net
from lab.sim.daily_demand import HOUR_S, DailyDemand, Trip, read_demand, unusual_flows
from models.networks.shipped import DEMAND_FILE, NET_FILE

RUSH = DailyDemand(NET_FILE, DEMAND_FILE, 7 * HOUR_S, 8 * HOUR_S)
FILE = read_demand(DEMAND_FILE)
NET = load_net(NET_FILE)


@pytest.fixture(scope="module")
def rush_hour() -> list[Trip]:
    return RUSH.trips(1)


def test_the_seed_draws_the_trips(rush_hour):
    assert RUSH.trips(1) == rush_hour != RUSH.trips(2)


def test_trips_of_a_window_do_not_depend_on_where_it_begins(rush_hour):
    begin, end = 7 * HOUR_S + 437, 7 * HOUR_S + 2111
    inside = [trip for trip in rush_hour if begin <= trip.depart_s < end]
    assert replace(RUSH, begin_s=begin, end_s=end).trips(1) == inside


def test_trips_are_ordered_and_drive_existing_ways(rush_hour):
    assert rush_hour == sorted(rush_hour, key=lambda trip: trip.depart_s)
    for route in {trip.route for trip in rush_hour}:
        assert route[0] in NET.entries
        assert route[-1] in NET.exits
        for edge, following in pairwise(route):
            assert following in NET.roads[edge]


def test_every_exit_is_reached_from_every_entry_but_on_the_way_back():
    assert len(NET.entries) == len(NET.exits) == 8
    for start in NET.entries:
        for end in NET.exits:
            same_street = NET.edges[start][0] == NET.edges[end][1]
            assert NET.route(start, end) or same_street
    assert NET.route("park_to_east", "west_to_station") == ()


def test_number_of_trips_is_what_the_rates_promise(rush_hour):
    expected = sum(RUSH.rate(flow, 7.5 * HOUR_S) for flow in RUSH.flows)
    assert len(rush_hour) == pytest.approx(expected, rel=0.1)


def test_scale_multiplies_demand(rush_hour):
    doubled = replace(RUSH, scale=2.0)
    assert len(doubled.trips(1)) == pytest.approx(2 * len(rush_hour), rel=0.1)
    usual, twice = (each.movement_flows(7.5 * HOUR_S) for each in (RUSH, doubled))
    assert twice == {movement: pytest.approx(2 * flow) for movement, flow in usual.items()}


def test_flows_of_an_entry_sum_to_what_enters_there():
    for entry in FILE.entries:
        own = [flow for flow in RUSH.flows if flow.start == entry.edge]
        assert sum(flow.morning for flow in own) == pytest.approx(entry.morning)
        assert sum(flow.evening for flow in own) == pytest.approx(entry.evening)


def test_unusual_traffic_has_other_turns_and_entries_and_as_many_vehicles():
    usual = RUSH.flows
    unusual = unusual_flows(usual, 1)
    assert unusual == unusual_flows(usual, 1) != unusual_flows(usual, 2)
    assert [flow[:2] for flow in unusual] == [flow[:2] for flow in usual]
    for hours in ("morning", "evening"):
        total = [sum(getattr(flow, hours) for flow in flows) for flows in (usual, unusual)]
        assert total[1] == pytest.approx(total[0])
    before: defaultdict[str, float] = defaultdict(float)
    after: defaultdict[str, float] = defaultdict(float)
    for one, other in zip(usual, unusual, strict=True):
        before[one.start] += one.morning
        after[other.start] += other.morning
    ratios = [after[start] / before[start] for start in before]
    assert 1.1 < max(ratios) / min(ratios) < 1.4 / 0.6 + 0.01
    assert any(abs(a.morning / b.morning - 1) > 0.5 for a, b in zip(unusual, usual, strict=True))
    trips = replace(RUSH, unusual=1).trips(1)
    assert {trip.route for trip in trips} <= {trip.route for trip in RUSH.trips(1)}
