"""Intergreen times: as the formula says, and for every pair of movements that can meet."""

from __future__ import annotations

import pytest

from models.signal_states import YELLOW_S
from models.signals.crossing import Crossing, Way, read_crossings
from models.signals.intergreen import intergreen_matrix
from models.signals.monitor import read_monitors

CROSSINGS = read_crossings()

EAST = Way(0, "w_0", "e", False, ((0, 0), (30, 0)))
NORTH = Way(1, "s_0", "n", False, ((20, -10), (20, 20)))
LEFT = Way(2, "n_0", "e", True, ((10, 20), (10, 3), (13, 0), (30, 0)))
FAR = Way(3, "x_0", "y", False, ((0, 50), (30, 50)))


def test_who_clears_is_away_before_who_enters_arrives() -> None:
    matrix = intergreen_matrix((EAST, NORTH, LEFT, FAR))
    # They cross 20 m from one stop line and 10 m from the other. Within 2.5 m around the crossing
    # the longest time is 0.34 s longer.
    assert matrix[0][1] == 6  # 3 + (20 + 6) / 10 - 10 / 11.1 + 0.34 = 5.04
    assert matrix[1][0] == 4  # 3 + (10 + 6) / 10 - 20 / 11.1 + 0.34 = 3.14
    assert matrix[0][3] is None
    assert matrix[2][0] is not None


def test_a_movement_needs_no_time_after_itself_and_its_own_lane() -> None:
    other = Way(1, "w_0", "s", True, ((0, 0), (5, -10)))
    assert intergreen_matrix((EAST, other)) == ((None, None), (None, None))


def test_neighbours_that_lead_into_one_road_meet_though_their_lanes_do_not() -> None:
    merging = Way(1, "s_0", "e", True, ((20, -30), (20, -12), (30, -4)))
    matrix = intergreen_matrix((EAST, merging))
    assert matrix[0][1] is not None
    assert matrix[1][0] is not None


@pytest.mark.parametrize("crossing", CROSSINGS.values(), ids=CROSSINGS)
def test_times_are_never_below_the_yellow_and_within_reason(crossing: Crossing) -> None:
    times = [s for row in intergreen_matrix(crossing.ways) for s in row if s is not None]
    assert min(times) >= YELLOW_S
    assert 5 <= max(times) <= 10


@pytest.mark.parametrize("junction", CROSSINGS)
def test_every_conflict_that_netconvert_knows_of_has_a_time_both_ways(junction: str) -> None:
    matrix = intergreen_matrix(CROSSINGS[junction].ways)
    conflicts = read_monitors()[junction].conflicts
    assert conflicts
    for a, b in conflicts:
        assert matrix[a][b] is not None
        assert matrix[b][a] is not None


@pytest.mark.parametrize("junction", CROSSINGS)
def test_ways_are_those_of_the_links_and_begin_at_their_own_stop_lines(junction: str) -> None:
    ways = CROSSINGS[junction].ways
    assert [way.index for way in ways] == list(range(len(CROSSINGS[junction].phases[0])))
    starts = {
        way.lane: {other.shape[0] for other in ways if other.lane == way.lane} for way in ways
    }
    assert all(len(points) == 1 for points in starts.values())
    assert len(set.union(*starts.values())) == len(starts)
