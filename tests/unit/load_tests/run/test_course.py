"""How many users there are at each moment."""

from __future__ import annotations

import pytest

from load_tests.run.course import RISE, RUSH_HOUR, users_at


@pytest.mark.parametrize(("share", "users"), [(0, 20), (0.15, 60), (0.5, 100), (0.85, 60)])
def test_a_rush_hour_rises_stays_and_falls(share, users):
    assert users_at(RUSH_HOUR, 100, share) == users


def test_two_points_at_one_time_are_a_jump():
    jump = ((0, 0.02), (0.5, 0.02), (0.5, 1), (1, 1))
    assert [users_at(jump, 100, share) for share in (0.499, 0.5)] == [2, 100]


@pytest.mark.parametrize("points", [RISE, RUSH_HOUR])
def test_there_is_always_somebody_until_the_end(points):
    numbers = [users_at(points, 1, share / 100) for share in range(100)]
    assert set(numbers) == {1}
    assert users_at(points, 1, 1.0) is None
