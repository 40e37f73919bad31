"""Buckets of durations."""

from math import inf

import pytest

from deployments.request_times import BOUNDS_MS, RouteTimes


@pytest.mark.parametrize(
    ("seconds", "bound"),
    [(0.0, 0.1), (0.0001, 0.1), (0.00011, 0.2), (0.003, 3), (0.0031, 5), (4.0, 4e3), (4.1, inf)],
)
def test_a_request_counts_in_every_bucket_from_its_own_on(seconds, bound):
    times = RouteTimes()
    times.observe(200, seconds)
    assert {le: n for _, le, n in times.cumulative()} == {
        le: int(le >= bound) for le in (*BOUNDS_MS, inf)
    }


def test_statuses_are_counted_apart():
    times = RouteTimes()
    for status in (200, 503, 200):
        times.observe(status, 0.001)
    assert {status: n for status, le, n in times.cumulative() if le == inf} == {200: 2, 503: 1}


def test_totals_are_those_of_all_statuses():
    times = RouteTimes()
    assert times.totals() == []
    for status in (200, 200, 503):
        times.observe(status, 0.004)
    totals = times.totals()
    assert (sum(totals), totals[BOUNDS_MS.index(5)]) == (3, 3)
