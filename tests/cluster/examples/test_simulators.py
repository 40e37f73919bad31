"""examples/simulators counts decisions, and each is a step of a junction's state."""

import re

import httpx

from models.networks.shipped import JUNCTIONS

PROGRAM = "simulators/simulators.py"
LINE = re.compile(r"(\d+) environments: (\d+) decisions, (\d+) per second\n")


def test_256_environments_are_driven_in_processes(served, run_example):
    match = LINE.fullmatch(run_example(PROGRAM, "--url", served, "--steps", "5"))
    assert match is not None
    n, decisions, per_s = map(int, match.groups())
    assert (n, decisions) == (256, 256 * 5 * len(JUNCTIONS))
    assert per_s > 0
    with httpx.Client(base_url=served) as client:
        answer = client.post(
            "/predict_action",
            json={"junction_id": next(iter(JUNCTIONS)), "obs_data": [0.5]},
            headers={"X-Simulation-Run": "simulators-1-0"},
        )
    assert answer.headers["X-Hidden-State-Step"] == "7"
