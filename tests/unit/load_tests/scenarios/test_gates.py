"""Gates are read from a file that is checked, and judged by what was measured."""

from pathlib import Path

import pytest

from load_tests.harness.shipped import ROOT
from load_tests.scenarios.gates import ALL, Row, ScenarioGates, judge, read_gates
from load_tests.scenarios.scenarios import SCENARIOS

GATES = ROOT / "load_tests/scenarios/gates.toml"
LOGIN = "POST /api/auth/login"


def verdicts(rows: dict[str, Row], **gates: object) -> dict[tuple[str, str], bool]:
    judged = judge(ScenarioGates.model_validate(gates), rows)
    return {(each.what, each.figure): each.is_met for each in judged}


def test_every_scenario_has_gates_and_the_soak_alone_samples_memory():
    gates = read_gates(GATES)
    assert gates.keys() == SCENARIOS.keys()
    assert all(each.error_rate is not None for each in gates.values())
    assert [name for name, each in gates.items() if each.growth_mb] == ["soak"]


def test_all_requests_and_single_routes_have_bounds_that_figures_may_reach():
    rows = {LOGIN: Row(4, 0.25, 90, 90), ALL: Row(100, 0.01, 10, 90)}
    routes = {LOGIN: {"p95_ms": 50, "error_rate": 0.1}}
    assert verdicts(rows, p95_ms=50, p99_ms=89, error_rate=0.01, routes=routes) == {
        (ALL, "p95_ms"): True,
        (ALL, "p99_ms"): False,
        (ALL, "error_rate"): True,
        (LOGIN, "p95_ms"): False,
        (LOGIN, "error_rate"): False,
    }


@pytest.mark.parametrize("rows", [{}, {LOGIN: Row(0, 0, 0, 0)}], ids=["no row", "no request"])
def test_a_gate_that_nothing_was_measured_for_is_missed(rows):
    routes = {LOGIN: {"p95_ms": 500, "error_rate": 1}}
    assert set(verdicts(rows, routes=routes).values()) == {False}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[soak]\np98_ms = 3", "soak.p98_ms"),
        ("[soak]\nerror_rate = 2", "soak.error_rate"),
        ("[soak.routes.'GET /']\ngrowth_mb = 2", "soak.routes.GET /.growth_mb"),
        ("[soak", "Expected ']'"),
    ],
)
def test_a_file_with_no_gates_is_refused_with_the_place(tmp_path: Path, text, complaint):
    path = tmp_path / "gates.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_gates(path)
