"""Runs are listed, forked, exported, imported and ended on real Ray, with shards and replicas."""

from __future__ import annotations

import httpx
import pytest

from load_tests.harness.system import System
from models.networks.shipped import JUNCTIONS

pytestmark = pytest.mark.usefixtures("several")


@pytest.fixture(params=["many", "durable"], ids=["three replicas", "two shards"])
def url(request: pytest.FixtureRequest, system: System) -> str:
    return f"{system.url}/{request.param}"


def step(client: httpx.Client, run: str, value: float) -> dict[str, tuple[int, float]]:
    """Step all junctions of a run; return action and confidence of each."""
    items = [{"junction_id": each, "obs_data": [value, 0.5]} for each in JUNCTIONS]
    answer = client.post(
        "/predict_actions", json={"items": items}, headers={"X-Simulation-Run": run}
    )
    return {
        each["junction_id"]: (each["action"], each["confidence"])
        for each in answer.raise_for_status().json()["items"]
    }


def test_a_fork_an_import_and_the_run_itself_go_on_in_the_same_way(url, run_id):
    with httpx.Client(base_url=url, timeout=15) as client:
        for n in range(3):
            step(client, run_id, n / 10)
        fork, copy = f"{run_id}.fork", f"{run_id}.copy"
        for _ in range(2):  # the second one replaces the first
            answer = client.post(f"/runs/{run_id}/fork", json={"run_id": fork})
            assert answer.raise_for_status().json()["steps"] == dict.fromkeys(JUNCTIONS, 3)
        file = client.get(f"/runs/{run_id}/state").raise_for_status().content
        client.put(f"/runs/{copy}/state", content=file).raise_for_status()
        expected = step(client, run_id, 0.7)
        assert step(client, fork, 0.7) == expected
        assert step(client, copy, 0.7) == expected
        assert step(client, f"{run_id}.new", 0.7) != expected
        found = client.get(f"/runs/{fork}").raise_for_status().json()
        assert found["steps"].keys() == JUNCTIONS.keys()
        client.delete(f"/runs/{fork}").raise_for_status()
        assert client.get(f"/runs/{fork}").status_code == 404
        assert {run_id, copy} <= {each["run"] for each in client.get("/runs").json()["runs"]}
