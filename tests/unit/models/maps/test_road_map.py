"""The map of any network: lanes as they lie, and a place for what the file leaves out."""

from pathlib import Path
from typing import Any

import pytest

from models.maps.road_map import MAX_DRAWN, RoadMap, road_map_of
from models.networks.file import read_network_file
from models.networks.form import NetworkFile
from models.networks.shipped import SHIPPED_FILE
from tests.cities import entry

HARBOUR = Path(__file__).parents[4] / "configs" / "harbour.json"


def map_of(*junctions: dict[str, Any]) -> RoadMap:
    return road_map_of(NetworkFile.model_validate({"name": "a city", "junctions": junctions}))


@pytest.mark.parametrize(
    ("name", "phases"),
    [
        (
            "Center",
            (
                "mill and park, straight on and right",
                "mill and park, left",
                "market and south, straight on and right",
                "market and south, left; mill and park, right",
            ),
        ),
        ("Mill", ("station and center", "mill south")),
        ("Park", ("center and east", "park north")),
    ],
)
def test_the_shipped_network_is_drawn_with_names_and_phases_in_words(name, phases):
    (junction,) = [each for each in road_map_of(SHIPPED_FILE).junctions if each.name == name]
    assert junction.phases == phases
    assert {len(approach.greens) for approach in junction.approaches} == {len(phases)}


def test_a_road_has_the_lanes_of_one_edge_and_leads_to_its_junction():
    drawn = road_map_of(SHIPPED_FILE)
    (west,) = [road for road in drawn.roads if road.id == "west_to_station_0"]
    assert (west.start_name, len(west.lanes)) == ("west", 2)


def test_lanes_of_which_nobody_said_how_they_lie_are_arms_around_their_junction():
    drawn = road_map_of(read_network_file(HARBOUR))
    for junction in drawn.junctions:
        lanes = {each.lane for each in junction.approaches}
        arms = [lane for road in drawn.roads for lane in road.lanes if lane.id in lanes]
        assert len(arms) == len(lanes)
        assert len({arm.shape for arm in arms}) == len(lanes)
        x, y = junction.place
        for arm in arms:
            (far_x, far_y), (near_x, near_y) = arm.shape
            assert (far_x - x) ** 2 + (far_y - y) ** 2 > (near_x - x) ** 2 + (near_y - y) ** 2
    customs = {each.id: each for each in drawn.junctions}["customs"]
    assert [each.greens for each in customs.approaches] == ["GGr", "rGr", "Grr", "rrG", "rrG"]


def test_junctions_without_a_place_stand_in_rows_and_their_signals_are_not_known():
    drawn = map_of(*(entry(f"j{index}", index) for index in range(5)))
    assert len({each.place for each in drawn.junctions}) == 5
    assert {each.greens for junction in drawn.junctions for each in junction.approaches} == {"??"}
    assert drawn.junctions[0].phases == ("phase 0", "phase 1")


def test_a_large_city_is_drawn_in_part_and_says_so():
    drawn = map_of(*(entry(f"j{index}", index) for index in reversed(range(MAX_DRAWN + 7))))
    assert [each.id for each in drawn.junctions] == [f"j{index}" for index in range(MAX_DRAWN)]
    assert drawn.left_out == 7


def test_long_names_are_shortened_on_the_map_and_whole_in_the_data():
    name = "cluster_" + "1" * 80
    (junction,) = map_of(entry(name, 0)).junctions
    assert junction.id == name
    assert len(junction.name) == 24
