"""Scenarios of `make load` run on a real system, count every request of clients, and are judged."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

from load_tests.harness.system import System
from tests.cluster.test_documentation import OPERATOR
from tests.documentation import ROOT

FORECASTS = {"POST /density/predict", "POST /flow/forecast"}
GATES = """
[public]
error_rate = 0
[public.routes."POST /api/traffic/action"]
p95_ms = 3000
[overload]
error_rate = 0
[overload.routes."POST /predict_action"]
p99_ms = 0.001
[soak]
error_rate = 0
growth_mb = 1
"""


def make_load(
    system: System, folder: Path, *arguments: str, password: str = OPERATOR["JWT_AUTH_PASSWORD"]
) -> subprocess.CompletedProcess[str]:
    gates = folder / "gates.toml"
    gates.write_text(GATES)
    command = [sys.executable, "-m", "load_tests.scenarios", *arguments, "--host", system.url]
    command += ["--users", "10", "--minutes", "0.1", "--folder", str(folder), "--gates", str(gates)]
    here = {"DATA_DIR": str(system.instance.data_dir), "JWT_AUTH_PASSWORD": password}
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | OPERATOR | here, capture_output=True, text=True
    )


def requests(path: Path) -> dict[str, int]:
    """Return how many requests of each route were counted."""
    return {
        f"{each['method']} {each['name']}": each["num_requests"]
        for each in json.loads(path.read_text())
    }


def test_what_comes_from_outside_is_counted_by_route_and_keeps_to_its_gates(
    whole: System, tmp_path: Path
) -> None:
    result = make_load(whole, tmp_path, "public")
    assert result.returncode == 0, result.stdout + result.stderr
    counted = requests(tmp_path / "public.json")
    one_of_the_records = {"DELETE /api/accounts", "DELETE /api/loans", "DELETE /api/cards"}
    for routes in (
        {"POST /api/auth/login"},
        {"POST /api/traffic/action"},
        FORECASTS,
        one_of_the_records,
    ):
        assert sum(counted.get(route, 0) for route in routes) > 0
    assert "met     POST /api/traffic/action" in result.stdout
    assert (tmp_path / "public.html").stat().st_size > 10_000


def test_a_missed_gate_ends_the_run_with_1_and_says_by_how_much(
    whole: System, tmp_path: Path
) -> None:
    result = make_load(whole, tmp_path, "overload")
    assert result.returncode == 1
    assert requests(tmp_path / "overload.json")["POST /predict_action"] > 0
    (missed,) = [line for line in result.stdout.splitlines() if line.startswith("missed")]
    assert "POST /predict_action:" in missed
    assert "too much" in missed


def test_a_soak_samples_every_process_and_is_missed_when_it_is_too_short(
    whole: System, tmp_path: Path
) -> None:
    result = make_load(whole, tmp_path, "soak")
    assert result.returncode == 1
    assert "missed  every process: nothing was measured" in result.stdout
    with (tmp_path / "soak_memory.csv").open() as file:
        sizes = {row["process"]: float(row["uss_mb"]) for row in csv.DictReader(file)}
    kinds = ("ray::ServeReplica:inference", "ray::StateActor", "raylet", "haproxy")
    assert [kind for kind in kinds if not any(name.startswith(kind) for name in sizes)] == []
    assert min(sizes.values()) > 0
    assert (tmp_path / "soak_memory.png").exists()
    assert requests(tmp_path / "soak.json")["POST /predict_actions"] > 0


def test_a_wrong_password_is_told_of_before_anything_is_loaded(
    whole: System, tmp_path: Path
) -> None:
    result = make_load(whole, tmp_path, "public", password="wrong")
    assert result.returncode == 1
    assert "refuses this user and password" in result.stdout
    assert not (tmp_path / "public.log").exists()
