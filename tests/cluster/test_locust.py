"""Scenarios of `make load` run on a real system, count every request of clients, and are judged."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System
from tests.cluster.gateway.conftest import ENVIRONMENT, USER, gateway
from tests.documentation import ROOT

GATES = """
[public]
error_rate = 0
[public.routes."POST /api/traffic/action"]
p95_ms = 3000
[public.routes."POST /api/auth/login"]
p95_ms = 3000
[public.routes."POST /flow/forecast"]
error_rate = 0
[public.routes."DELETE /api/loans"]
error_rate = 0
[soak]
growth_mb = 1
[soak.routes."POST /predict_actions"]
p99_ms = 0.001
"""

OTHERS = ["density", "flow", "accounts", "loans", "cards"]


@pytest.fixture(scope="module")
def whole(system: System) -> Iterator[System]:
    before = dict(system.applications)
    others = [shipped_application(name) for name in OTHERS]
    system.deploy(gateway("gateway", "/api"), *others)
    yield system
    system.applications = before
    system.deploy()


def locust(
    system: System, folder: Path, scenario: str, password: str = USER["password"]
) -> subprocess.CompletedProcess[str]:
    gates = folder / "gates.toml"
    gates.write_text(GATES)
    command = [sys.executable, "-m", "locust", "-f", "load_tests/locustfile.py", "--headless"]
    command += ["--host", system.url, "--users", "10", "--run-time", "10", "--gates", str(gates)]
    settings = {
        "DATA_DIR": str(system.instance.data_dir),
        "JWT_AUTH_PASSWORD": password,
        "LOAD_SCENARIO": scenario,
    }
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | ENVIRONMENT | settings, capture_output=True, text=True
    )


def test_what_comes_from_outside_is_counted_by_route_and_keeps_to_its_gates(whole, tmp_path):
    result = locust(whole, tmp_path, "public")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("met     POST /api/traffic/action") == 1


def test_a_missed_gate_ends_the_run_with_1_and_a_short_soak_shows_nothing(whole, tmp_path):
    result = locust(whole, tmp_path, "soak")
    assert result.returncode == 1
    missed = [line for line in result.stdout.splitlines() if line.startswith("missed")]
    assert [line.split(":")[0] for line in missed] == [
        "missed  POST /predict_actions",
        "missed  every process",
    ]


def test_a_wrong_password_is_reported_before_anything_is_loaded(whole, tmp_path):
    result = locust(whole, tmp_path, "public", password="wrong")
    assert result.returncode == 1
    assert "refuses this user and password" in result.stderr
    assert "Aggregated" not in result.stdout
