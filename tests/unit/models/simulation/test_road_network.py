"""The built network is the one that the junction table describes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from models.networks.network import Junction
from models.networks.shipped import JUNCTIONS
from models.signals.states import yellow_state
from models.simulation.road_network import SPEED_LIMIT, RoadNetwork, read_network


@pytest.fixture(scope="module")
def network() -> RoadNetwork:
    return read_network()


def test_signals_are_exactly_the_known_junctions(network: RoadNetwork) -> None:
    assert network.junctions.keys() == JUNCTIONS.keys()


@pytest.mark.parametrize("junction", JUNCTIONS.values(), ids=lambda junction: junction.id)
def test_phases_and_lanes_agree_with_the_junction_table(
    network: RoadNetwork, junction: Junction
) -> None:
    layout = network.junctions[junction.id]
    assert len(layout.phases) == junction.n_phases
    assert len(layout.lanes) == junction.n_lanes
    assert len({lane.id for lane in layout.lanes}) == junction.n_lanes


def test_every_phase_serves_traffic_and_every_lane_gets_green(network: RoadNetwork) -> None:
    for layout in network.junctions.values():
        for phase in range(len(layout.phases)):
            assert any(approach.greens[phase] in "Gg" for approach in layout.approaches)
        for approach in layout.approaches:
            assert set(approach.greens) & set("Gg")


def test_no_yellow_would_show_between_equal_phases(network: RoadNetwork) -> None:
    for layout in network.junctions.values():
        for state in layout.phases:
            assert yellow_state(state, state) == state


def test_every_exit_is_reached_from_every_entry_but_across_one_way_streets(
    network: RoadNetwork,
) -> None:
    assert len(network.entries) == len(network.exits) == 8
    for start in network.entries:
        for end in network.exits:
            route = network.route(start, end)
            same_street = start.split("_to_")[0] == end.rsplit("_to_")[1]
            assert route or same_street
            for edge, following in pairwise(route):
                assert following in network.successors[edge]


def test_route_to_an_edge_out_of_reach_is_empty(network: RoadNetwork) -> None:
    assert network.route("park_to_east", "west_to_station") == ()


def test_beyond_the_junctions_lie_their_own_ground_and_all_exits(network: RoadNetwork) -> None:
    beyond = {
        junction_id: {road.edge for road in layout.beyond}
        for junction_id, layout in network.junctions.items()
    }
    own = {
        junction_id: {edge for edge in beyond[junction_id] if edge[0] == ":"}
        for junction_id in beyond
    }
    for junction_id, edges in own.items():
        assert len(edges) >= 5
        assert all(edge.startswith(f":{junction_id}_") for edge in edges)
    exits = [edge for junction_id in beyond for edge in beyond[junction_id] - own[junction_id]]
    assert sorted(exits) == sorted(network.exits)
    limits = [road.speed_limit for layout in network.junctions.values() for road in layout.beyond]
    assert 5 < min(limits) < max(limits) == SPEED_LIMIT  # one turns more slowly than one drives
