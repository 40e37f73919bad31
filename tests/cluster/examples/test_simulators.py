"""examples/simulators counts decisions, and each is a step of a junction's state."""

import re

import httpx
import pytest

from models.networks.shipped import JUNCTIONS
from tests.cluster.examples.conftest import RunExample

PROGRAM = "simulators/simulators.py"
LINE = re.compile(r"(\d+) environments: (\d+) decisions, (\d+) per second\n")


def drive(run_example: RunExample, url: str, *arguments: str) -> tuple[int, int, int]:
    """Return environments, decisions and decisions per second."""
    match = LINE.fullmatch(run_example(PROGRAM, "--url", url, *arguments))
    assert match is not None
    n, decisions, per_s = map(int, match.groups())
    return n, decisions, per_s


def test_256_environments_are_driven_in_processes(served, run_example):
    n, decisions, per_s = drive(run_example, served, "--steps", "5")
    assert (n, decisions) == (256, 256 * 5 * len(JUNCTIONS))
    assert per_s > 0


def test_each_process_can_have_a_simulation_in_sumo(served, run_example):
    pytest.importorskip("libsumo", reason="SUMO is not installed")
    n, decisions, _ = drive(run_example, served, "--sumo", "--steps", "6")
    assert (n, decisions) == (2, 2 * 6 * len(JUNCTIONS))
    with httpx.Client(base_url=served) as client:
        answer = client.post(
            "/predict_action",
            json={"junction_id": next(iter(JUNCTIONS)), "obs_data": [0.5]},
            headers={"X-Simulation-Run": "simulators-1-0"},
        )
    assert answer.headers["X-Hidden-State-Step"] == "8"
