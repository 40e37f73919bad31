"""The map of any network: lanes as they lie, and a place for what the file leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models.maps.map_of_file import MAX_DRAWN, road_map_of
from models.maps.road_map import RoadMap, read_road_map
from models.networks.file import read_network_file
from models.networks.form import NetworkFile
from models.shipped import NETWORK_FILE
from models.sumo.importing import import_network
from tests.cities import entry

HARBOUR = Path(__file__).parents[4] / "configs" / "harbour.json"


def map_of(*junctions: dict[str, Any]) -> RoadMap:
    return road_map_of(NetworkFile.model_validate({"name": "a city", "junctions": junctions}))


def test_an_imported_network_has_the_lanes_and_greens_of_the_shipped_map() -> None:
    file, _ = import_network(NETWORK_FILE)
    drawn, shipped = road_map_of(file), read_road_map()
    known = {each.id: each for each in shipped.junctions}
    shapes = {lane.id: lane.shape for road in shipped.roads for lane in road.lanes}
    for junction in drawn.junctions:
        assert junction.approaches == known[junction.id].approaches
        assert junction.place == known[junction.id].place
    for road in drawn.roads:
        assert {lane.id: lane.shape for lane in road.lanes}.items() <= shapes.items()
    (west,) = [road for road in drawn.roads if road.id == "west_to_station_0"]
    assert (west.start_name, len(west.lanes)) == ("west", 2)


def test_lanes_of_which_nobody_said_how_they_lie_are_arms_around_their_junction() -> None:
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


def test_junctions_without_a_place_stand_in_rows_and_their_signals_are_not_known() -> None:
    drawn = map_of(*(entry(f"j{index}", index) for index in range(5)))
    assert len({each.place for each in drawn.junctions}) == 5
    assert {each.greens for junction in drawn.junctions for each in junction.approaches} == {"??"}
    assert drawn.junctions[0].phases == ("phase 0", "phase 1")


def test_a_large_city_is_drawn_in_part_and_says_so() -> None:
    drawn = map_of(*(entry(f"j{index}", index) for index in reversed(range(MAX_DRAWN + 7))))
    assert [each.id for each in drawn.junctions] == [f"j{index}" for index in range(MAX_DRAWN)]
    assert drawn.left_out == 7


def test_long_names_are_shortened_on_the_map_and_whole_in_the_data() -> None:
    name = "cluster_" + "1" * 80
    (junction,) = map_of(entry(name, 0)).junctions
    assert junction.id == name
    assert len(junction.name) == 24
