"""Medians of rounds, and thresholds as ratios of medians."""

from __future__ import annotations

import pytest

from load_tests.bench.results import Results, Threshold


@pytest.fixture
def results() -> Results:
    """Return figures of two subjects, one of which has a bad round, and of one that broke."""
    results = Results()
    for per_s in (400, 1000, 500):
        results.add("ours", {"per_s": per_s, "p50_ms": 1000 / per_s}, "few")
        results.add("ours", {"per_s": 900}, "many")
    results.add("peer", {"per_s": 250, "p50_ms": 4}, "few")
    results.add("peer", {"per_s": 300}, "many")
    results.add("broken", {"per_s": 100}, "few")
    results.add("ours", {"start_s": 3})
    return results


def test_one_bad_round_does_not_move_the_median(results: Results) -> None:
    assert results.median("ours", "per_s", "few") == 500
    assert results.median("ours", "start_s") == 3
    assert results.subjects == ["ours", "peer", "broken"]
    assert results.n_rounds == 3


@pytest.mark.parametrize(
    ("subject", "figure", "load"),
    [("broken", "per_s", "many"), ("peer", "start_s", ""), ("nobody", "per_s", "few")],
)
def test_what_was_not_measured_has_no_median(
    results: Results, subject: str, figure: str, load: str
) -> None:
    assert results.median(subject, figure, load) is None


@pytest.mark.parametrize(
    ("threshold", "ratio", "met"),
    [
        (Threshold("ours", "per_s", "few", ">=", 2, "peer"), 2, True),
        (Threshold("ours", "per_s", "few", ">=", 2.01, "peer"), 2, False),
        (Threshold("ours", "p50_ms", "few", "<=", 0.5, "peer"), 0.5, True),
        (Threshold("ours", "p50_ms", "few", "<=", 0.49, "peer"), 0.5, False),
        (Threshold("ours", "per_s", "many", ">=", 1.8, "ours", "few"), 1.8, True),
    ],
)
def test_a_threshold_compares_medians(
    results: Results, threshold: Threshold, ratio: float, met: bool
) -> None:
    measured = threshold.measured(results)
    assert measured == pytest.approx(ratio)
    assert measured is not None
    assert threshold.is_met_by(measured) is met


@pytest.mark.parametrize("missing", ["broken", "nobody"])
def test_a_threshold_of_what_was_not_measured_has_no_ratio(results: Results, missing: str) -> None:
    assert Threshold("ours", "per_s", "many", ">=", 1, missing).measured(results) is None
    assert Threshold(missing, "per_s", "many", ">=", 1, "ours").measured(results) is None


def test_every_round_is_in_the_json(results: Results) -> None:
    rows = {(each["subject"], each["load"]): each["rounds"] for each in results.as_json()}
    assert [figures["per_s"] for figures in rows["ours", "few"]] == [400, 1000, 500]
    assert rows["ours", ""] == [{"start_s": 3}]
    assert results.values("start_s") == [3]
