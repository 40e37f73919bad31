"""Medians of rounds, and bars as ratios of medians."""

from __future__ import annotations

import pytest

from load_tests.bench.comparison.figures import Bar, median, median_under
from tests.unit.load_tests.bench.made import TURNS, turn


def test_one_round_that_went_badly_does_not_move_the_median():
    assert median_under(TURNS["ours"], "few", "per_s") == 500
    assert median([turn(start_s=1), turn(start_s=90), turn(start_s=2)], "start_s") == 2


def test_a_load_that_was_measured_in_no_round_has_no_median():
    assert median_under(TURNS["broken"], "many", "per_s") is None
    assert median_under([], "many", "per_s") is None


@pytest.mark.parametrize(
    ("bar", "ratio", "met"),
    [
        (Bar("ours", "per_s", "few", "peer", ">=", 2), 2, True),
        (Bar("ours", "per_s", "few", "peer", ">=", 2.01), 2, False),
        (Bar("ours", "p50_ms", "few", "peer", "<=", 0.5), 0.5, True),
        (Bar("ours", "p50_ms", "few", "peer", "<=", 0.49), 0.5, False),
        (Bar("ours", "per_s", "many", "ours", ">=", 1.8, "few"), 1.8, True),
    ],
)
def test_a_bar_compares_medians(bar, ratio, met):
    measured = bar.measured(TURNS)
    assert measured == pytest.approx(ratio)
    assert bar.is_met_by(measured) is met


@pytest.mark.parametrize("missing", ["broken", "nobody"])
def test_a_bar_of_what_was_not_measured_has_no_ratio(missing):
    assert Bar("ours", "per_s", "many", missing, ">=", 1).measured(TURNS) is None
    assert Bar(missing, "per_s", "many", "ours", ">=", 1).measured(TURNS) is None
