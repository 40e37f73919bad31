"""What the map of the console is drawn from, of the network that is shipped."""

from __future__ import annotations

import pytest

from models.maps.phases_in_words import ways_in_words
from models.maps.road_map import read_road_map


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
def test_each_phase_says_from_where_one_may_go(name: str, phases: tuple[str, ...]):
    (junction,) = [each for each in read_road_map().junctions if each.name == name]
    assert junction.phases == phases
    assert {len(approach.greens) for approach in junction.approaches} == {len(phases)}


def test_where_nothing_is_green_there_is_nothing_to_say():
    assert ways_in_words([("mill", "s", False)]) == ""
