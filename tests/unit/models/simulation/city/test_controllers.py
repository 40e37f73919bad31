"""What greedy and max pressure choose, for queues that are told."""

from __future__ import annotations

import pytest

from models.networks.form import LaneBehind, NetworkFile
from models.simulation.city.controllers import ByQueues

# The only lane from the west goes straight on and left; phase 1 serves its left turns alone.
NETWORK = NetworkFile.model_validate(
    {
        "name": "crossing",
        "junctions": [
            {
                "id": "a",
                "agent_index": 0,
                "phases": [{"state": "GGr"}, {"state": "rGr"}, {"state": "rrG"}],
                "lanes": [{"id": "west", "capacity": 10}, {"id": "north", "capacity": 10}],
                "links": [
                    {"lane": "west", "to": "east"},
                    {"lane": "west", "to": "far", "turn": "l"},
                    {"lane": "north", "to": "south"},
                ],
            }
        ],
    }
)


def choice(pressure: bool, present: int = 0, **queues: int) -> int:
    controller = ByQueues(NETWORK, pressure)
    return controller.act({"a": present}, lambda lane: queues.get(lane, 0))["a"]


def test_greedy_serves_the_largest_queue():
    assert choice(False, west=3, north=2) == 0
    assert choice(False, west=3, north=4) == 2


def test_a_phase_that_serves_a_part_of_a_lane_is_no_substitute_for_one_that_serves_all():
    assert choice(False, present=1, west=3) == 0
    assert choice(True, present=1, west=3) == 0


def test_the_present_phase_stays_where_none_is_better():
    assert choice(False, present=2) == 2
    assert choice(False, present=2, west=2, north=2) == 2


def test_max_pressure_minds_what_stands_downstream():
    assert choice(True, west=5, north=4) == 0
    assert choice(True, west=5, north=4, east=3, far=3) == 2
    assert choice(False, west=5, north=4, east=3, far=3) == 0


def with_left_turns_that_give_way() -> NetworkFile:
    junction = {
        "id": "a",
        "agent_index": 0,
        "phases": [{"state": "GgG"}, {"state": "GGr"}],
        "lanes": [{"id": each, "capacity": 10} for each in ("west", "west_left", "east")],
        "links": [
            {"lane": "west", "to": "far"},
            {"lane": "west_left", "to": "north", "turn": "l"},
            {"lane": "east", "to": "near"},
        ],
    }
    return NetworkFile.model_validate({"name": "arterial", "junctions": [junction]})


@pytest.mark.parametrize("pressure", [False, True])
def test_left_turns_get_a_green_of_their_own_though_another_phase_serves_all_ways(pressure):
    controller = ByQueues(with_left_turns_that_give_way(), pressure)
    for left, phase in ((8, 1), (2, 0)):
        queues = {"west": 5, "west_left": left, "east": 3}
        assert controller.act({"a": 0}, lambda lane: queues.get(lane, 0))["a"] == phase  # noqa: B023


def test_vehicles_behind_a_lane_too_short_for_any_count_with_their_share():
    junction = NETWORK.junctions[0]
    short = junction.lanes[0].model_copy(update={"behind": (LaneBehind(lane="avenue", share=0.5),)})
    lanes = (short, *junction.lanes[1:])
    network = NETWORK.model_copy(
        update={"junctions": (junction.model_copy(update={"lanes": lanes}),)}
    )
    for avenue, phase in ((8, 0), (4, 2)):
        queues = {"avenue": avenue, "north": 3}
        chosen = ByQueues(network, False).act({"a": 2}, lambda lane: queues.get(lane, 0))  # noqa: B023
        assert chosen["a"] == phase
