"""Gates are read from a file that is checked, and judged by what was measured, memory included."""

import random
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from load_tests.harness.shipped import ROOT
from load_tests.scenarios.gates import ALL, MemoryWatch, Row, ScenarioGates, judge, read_gates
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


def test_each_process_is_sampled_while_it_lives_and_named_by_its_command():
    idle = [sys.executable, "-c", "input()"]
    with subprocess.Popen(idle, stdin=subprocess.PIPE) as child:
        processes = [psutil.Process(), psutil.Process(child.pid)]
        watch = MemoryWatch(lambda: processes)
        watch.sample()
        child.kill()
        child.wait()
        watch.sample()
    own, of_child = sorted(watch.points.values(), key=len, reverse=True)
    assert (len(own), len(of_child)) == (2, 1)
    assert min(size for _, size in own + of_child) > 100_000
    assert own[0][0] < own[1][0]
    assert f"{Path(sys.executable).name} -c input() ({child.pid})" in watch.points


MB = 1_000_000
MINUTES = 30


def soak(size, begin: float = 0, end: float = MINUTES) -> list[tuple[float, int]]:
    """Sample a size in MB, a function of the minute, every five seconds."""
    times = range(round(begin * 60), round(end * 60) + 1, 5)
    return [(float(at), round(size(at / 60) * MB)) for at in times]


def judged(**points: list[tuple[float, int]]) -> dict[str, bool]:
    watch = MemoryWatch(list)
    watch.points = points
    return {each.what: each.is_met for each in watch.judge(3)}


def test_a_leak_alone_is_found_beneath_noise_and_after_the_warm_up():
    chance = random.Random(1)
    sizes = {
        "leak": lambda minute: 100 + 0.4 * minute + chance.uniform(-2, 2),
        "noise": lambda minute: 100 + chance.uniform(-4, 4),
        "warm": lambda minute: 50 + 10 * min(minute, 14),
    }
    verdicts = judged(**{name: soak(size) for name, size in sizes.items()})
    assert verdicts == {"leak": False, "noise": True, "warm": True}


def test_who_came_or_went_in_the_second_half_is_not_judged():
    came, went = soak(lambda at: 100 * at, begin=20), soak(lambda at: 100 * at, end=25)
    assert judged(came=came, went=went, stayed=soak(lambda _: 1)) == {"stayed": True}


@pytest.mark.parametrize("points", [{}, {"seldom": [(0.0, 1), (900.0, 1), (1800.0, 1)]}])
def test_a_soak_that_shows_nothing_is_missed(points):
    assert judged(**points) == {"every process": False}
