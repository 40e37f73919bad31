"""Gates are read from a file that is checked, and judged by what was measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from load_tests.scenarios.__main__ import GATES
from load_tests.scenarios.gates import LoadTestError, ScenarioGates, Verdict, judge, read_gates
from load_tests.scenarios.results import ALL, REFUSED, Row
from load_tests.scenarios.scenarios import CONNECTIONS, SCENARIOS

LOGIN = "POST /api/auth/login"


def row(route: str, failures: int = 0, **took: int) -> Row:
    """Make a row of requests; ``ms_20=3`` are three that took 20 ms."""
    times = Counter({float(name.removeprefix("ms_")): number for name, number in took.items()})
    return Row(route, times.total(), failures, times)


def verdicts(rows: list[Row], **gates: object) -> dict[tuple[str, str], bool]:
    judged = judge(ScenarioGates.model_validate(gates), rows)
    return {(each.what, each.figure): each.is_met for each in judged}


def test_every_scenario_has_gates_and_every_gate_a_scenario():
    gates = read_gates(GATES)
    assert gates.keys() == SCENARIOS.keys()
    assert all(each.error_rate is not None for each in gates.values())


def test_the_soak_alone_samples_memory():
    gates = read_gates(GATES)
    assert [name for name, each in gates.items() if each.growth_mb] == ["soak"]


@pytest.mark.parametrize(("bound", "is_met"), [(40, True), (39, False)])
def test_a_figure_may_be_as_large_as_its_bound(bound, is_met):
    rows = [row(ALL, ms_10=95, ms_40=5)]
    assert verdicts(rows, p99_ms=bound) == {(ALL, "p99_ms"): is_met}


def test_all_requests_and_single_routes_have_bounds_of_their_own():
    rows = [row(LOGIN, failures=1, ms_90=4), row(ALL, failures=1, ms_10=96, ms_90=4)]
    routes = {LOGIN: {"p95_ms": 50, "error_rate": 0.1}}
    assert verdicts(rows, p95_ms=50, error_rate=0.01, routes=routes) == {
        (ALL, "p95_ms"): True,
        (ALL, "error_rate"): True,
        (LOGIN, "p95_ms"): False,
        (LOGIN, "error_rate"): False,
    }


@pytest.mark.parametrize("rows", [[], [row(LOGIN)]], ids=["no row", "no request"])
def test_a_gate_that_nothing_was_measured_for_is_missed(rows):
    routes = {LOGIN: {"p95_ms": 500, "error_rate": 1}}
    assert set(verdicts(rows, routes=routes).values()) == {False}


@pytest.mark.parametrize(("connections", "expected"), [(1799, []), (1800, [False])])
def test_gates_of_a_route_can_begin_at_a_number_of_connections(connections, expected):
    bounds = {"error_rate": 0, "from_connections": 1800}
    gates = ScenarioGates.model_validate({"routes": {LOGIN: bounds}})
    assert [each.is_met for each in judge(gates, [], connections)] == expected


def test_an_overload_by_1800_connections_must_have_refusals():
    gates = read_gates(GATES)["overload"]
    rows = [row(route, ms_20=1) for route in (ALL, "POST /predict_action")]
    assert all(each.is_met for each in judge(gates, rows, CONNECTIONS))
    (missed,) = [each for each in judge(gates, rows, 1800) if not each.is_met]
    assert missed.what == "POST /predict_action" + REFUSED
    assert "nothing was measured" in str(missed)


def test_what_is_missed_is_reported_with_by_how_much():
    text = str(Verdict(LOGIN, "p95_ms", 250, 310.5))
    assert text == f"{LOGIN}: 310.5 ms at the 95th percentile, 250 ms allowed: 60.5 ms too much"
    assert str(Verdict(ALL, "error_rate", 0, 0.012)).endswith("0.000% allowed: 1.200% too much")
    assert "nothing was measured" in str(Verdict(LOGIN, "p95_ms", 250, None))
    assert "too much" not in str(Verdict(LOGIN, "p95_ms", 250, 250))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[soak]\np98_ms = 3", "soak > p98_ms"),
        ("[soak]\nerror_rate = 2", "soak > error_rate"),
        ("[soak.routes.'GET /']\ngrowth_mb = 2", "soak > routes > GET / > growth_mb"),
        ("[soak", "cannot be read"),
    ],
)
def test_a_file_with_no_gates_is_refused_with_the_place(tmp_path: Path, text, complaint):
    path = tmp_path / "gates.toml"
    path.write_text(text)
    with pytest.raises(LoadTestError, match=complaint):
        read_gates(path)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(LoadTestError, match=r"nowhere\.toml cannot be read"):
        read_gates(tmp_path / "nowhere.toml")
