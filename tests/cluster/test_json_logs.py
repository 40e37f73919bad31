"""Across processes: every line of the real files is JSON, and names what it is about."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from load_tests.harness.system import System, application
from tests.reference import JUNCTIONS
from tests.support.waiting import until_async

STEP = {"junction_id": JUNCTIONS[0], "obs_data": [0.5]}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def told(system: System) -> Iterator[str]:
    """Deploy an inference that keeps one state, and has a line for every request."""
    config = application("told", "/told", env={"ACCESS_LOG_SHARE": "1"}, max_states=1)
    config["logging_config"] = {"encoding": "JSON", "enable_access_log": False}
    system.deploy(config)
    yield f"{system.url}/told"
    system.remove("told")


def lines_of(system: System, name: str) -> list[dict[str, Any]]:
    """Read a file line by line; each must be an object."""
    lines = [json.loads(line) for line in system.serve_logs(name).splitlines()]
    assert all(isinstance(line, dict) and line["message"] for line in lines)
    return lines


async def until_told(system: System, name: str, **fields: object) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [line for line in lines_of(system, name) if fields.items() <= line.items()]

    await until_async(found)
    return found()[0]


async def test_lines_of_replicas_and_state_actors_have_fields(system, told):
    async with httpx.AsyncClient(base_url=told, timeout=10) as client:
        for run in ("old", "new"):
            headers = {
                "X-Simulation-Run": run,
                "x-request-id": f"r-{run}",
                "traceparent": TRACEPARENT,
            }
            await client.post("/predict_action", json=STEP, headers=headers)
    about = {"run": "new", "junction": JUNCTIONS[0]}
    replica = {"application": "told", "deployment": "told_Inference"}

    access = await until_told(system, "replica_told_Inference", status=503, **about)
    assert access["levelname"] == "INFO"
    assert (access["method"], access["path"]) == ("POST", "/told/predict_action")
    assert 0 < access["ms"] < 10_000
    assert (access["request_id"], access["trace_id"]) == ("r-new", TRACE)
    assert access["replica"]
    assert replica.items() <= access.items()
    (success,) = [
        line for line in lines_of(system, "replica_told_Inference") if line.get("status") == 200
    ]
    assert (success["request_id"], success["run"]) == ("r-old", "old")

    loaded = [
        line
        for line in lines_of(system, "replica_told_Inference")
        if line["message"].startswith("Serving the policy")
    ]
    assert replica.items() <= loaded[0].items(), "a line of no request, too"

    actor = {"application": "told", "component_name": "hidden_states", "shard": "0"}
    term = await until_told(system, "hidden_states_told_0", levelname="INFO", **actor)
    assert term["message"].endswith(" begins, with 0 hidden states")
