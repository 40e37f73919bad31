"""What greedy and max pressure choose, for queues that are told."""

from __future__ import annotations

from models.networks.file import NetworkFile
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
