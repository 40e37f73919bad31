"""How outcomes are counted, and how the statistics that Locust writes are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from greenwave.client.core.call import NoReply, Reply
from load_tests.scenarios.results import ALL, REFUSED, Row, classify, read_failures, read_rows


def entry(method: str, name: str, failures: int, took: dict[str, int]) -> dict[str, object]:
    return {
        "method": method,
        "name": name,
        "num_requests": sum(took.values()),
        "num_failures": failures,
        "response_times": took,
    }


def test_rows_are_by_path_and_the_last_is_of_all_requests(tmp_path: Path):
    path = tmp_path / "stats.json"
    entries = [
        entry("DELETE", "/b", 1, {"7": 1, "100": 1}),
        entry("PUT", "/a", 0, {"7": 2}),
        entry("POST", "/a", 2, {"0.5": 6}),
    ]
    path.write_text(json.dumps(entries))
    rows = read_rows(path)
    assert [row.route for row in rows] == ["POST /a", "PUT /a", "DELETE /b", ALL]
    assert (rows[-1].requests, rows[-1].failures) == (10, 3)
    assert rows[-1].took == {0.5: 6, 7: 3, 100: 1}


def test_percentiles_are_of_the_requests_and_not_of_the_times():
    row = Row("GET /", 100)
    row.took.update({900: 1, 20: 4, 10: 95})
    assert (row.p50_ms, row.p95_ms, row.p99_ms) == (10, 10, 20)


@pytest.mark.parametrize("figure", ["p50_ms", "p99_ms", "error_rate"])
def test_a_route_without_requests_has_no_figure(figure):
    assert getattr(Row("GET /"), figure) is None


def test_failures_are_told_the_most_frequent_first(tmp_path: Path):
    path = tmp_path / "failures.csv"
    path.write_text("Method,Name,Error,Occurrences\nGET,/a,status 500,2\nPUT,/b,status 503,11\n")
    assert read_failures(path) == ["11 × PUT /b: status 503", "2 × GET /a: status 500"]


OVERLOADED = Reply(503, {"x-error-code": "overloaded", "retry-after": "2"}, b"")
NEVER = Reply(503, {"x-error-code": "overloaded"}, b"")
ANOTHER_503 = Reply(503, {"x-error-code": "model_not_loaded", "retry-after": "2"}, b"")
AWAY = NoReply(False, "No connection")


def test_a_proper_refusal_is_a_route_of_its_own_where_it_may_be():
    assert classify(OVERLOADED, may_be_refused=True) == (REFUSED, None)


@pytest.mark.parametrize(
    ("outcome", "may_be_refused", "reason"),
    [
        (OVERLOADED, False, "status 503 overloaded"),
        (NEVER, True, "status 503 overloaded without Retry-After"),
        (ANOTHER_503, True, "status 503 model_not_loaded"),
        (Reply(429, {"retry-after": "2"}, b""), True, "status 429"),
        (Reply(404, {}, b""), True, "status 404"),
        (AWAY, True, "No connection"),
    ],
)
def test_anything_else_is_a_failure_that_says_why(outcome, may_be_refused, reason):
    classified = classify(outcome, may_be_refused)
    assert (classified.suffix, str(classified.failure)) == ("", reason)


def test_an_answer_is_no_failure():
    assert classify(Reply(201, {}, b""), may_be_refused=False) == ("", None)
