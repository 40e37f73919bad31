"""Intergreen times: as the formula says, and for every pair of movements that can meet."""

from dataclasses import replace

from lab.net.importing import import_network
from lab.net.intergreen import Way, _matrix_at_origin, intergreen_matrix, yellow_of
from tests.made_nets import made_net

EAST = Way(0, "w_0", "e", False, ((0, 0), (30, 0)))
NORTH = Way(1, "s_0", "n", False, ((20, -10), (20, 20)))
LEFT = Way(2, "n_0", "e", True, ((10, 20), (10, 3), (13, 0), (30, 0)))
FAR = Way(3, "x_0", "y", False, ((0, 50), (30, 50)))


def test_who_clears_is_away_before_who_enters_arrives():
    matrix = intergreen_matrix((EAST, NORTH, LEFT, FAR))
    # They cross 20 m from one stop line and 10 m from the other. Within 2.5 m around the crossing
    # the longest time is 0.34 s longer.
    assert matrix[0][1] == 6  # 3 + (20 + 6) / 10 - 10 / 11.1 + 0.34 = 5.04
    assert matrix[1][0] == 4  # 3 + (10 + 6) / 10 - 20 / 11.1 + 0.34 = 3.14
    assert matrix[0][3] is None
    assert matrix[2][0] is not None


def test_pedestrians_reach_the_other_side_before_vehicles_arrive_and_the_other_way_round():
    crossing = Way(1, "w0", "c", False, ((24, -6), (24, 6)), crossing_m=4.0)
    beside = Way(2, "w1", "d", False, ((-4, -6), (-4, 6)), crossing_m=4.0)
    matrix = intergreen_matrix((EAST, crossing, beside))
    assert matrix[1][0] == 9  # 12 m at 1.2 m/s; the vehicle is there after 20.9 m at 40 km/h
    assert matrix[0][1] == 7  # 3 s + (27.2 + 6) m at 10 m/s
    assert matrix[1][2] is None, "people do not conflict"
    assert matrix[2][0] is None, "a crossing behind the stop line"


def test_who_may_drive_fast_crosses_late_and_who_walks_slowly_clears_late():
    crossing = Way(1, "w0", "c", False, ((24, -6), (24, 6)), crossing_m=4.0)
    matrix = intergreen_matrix((replace(EAST, yellow_s=5), crossing, NORTH), walks_at=1.0)
    assert (matrix[1][0], matrix[0][1], matrix[0][2]) == (11, 9, 8)  # 9, 7 and 6 as above
    assert [yellow_of(km_h / 3.6) for km_h in (30, 50, 60, 70, 100)] == [3, 3, 4, 5, 5]


def test_a_movement_needs_no_time_after_itself_and_its_own_lane():
    other = Way(1, "w_0", "s", True, ((0, 0), (5, -10)))
    assert intergreen_matrix((EAST, other)) == ((None, None), (None, None))


def test_neighbours_that_lead_into_one_road_meet_though_their_lanes_do_not():
    merging = Way(1, "s_0", "e", True, ((20, -30), (20, -12), (30, -4)))
    matrix = intergreen_matrix((EAST, merging))
    assert matrix[0][1] is not None
    assert matrix[1][0] is not None


def test_the_times_of_like_junctions_are_computed_once(tmp_path):
    _matrix_at_origin.cache_clear()
    network, _ = import_network(made_net(tmp_path / "made.net.xml"))
    first, *others = (each.intergreen_s for each in network.junctions)
    assert first is not None
    assert others == [first] * 3
    assert _matrix_at_origin.cache_info().misses == 1
