"""Requests that pass Serve's wrapper by: Serve knows of them, and ends no replica under them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from load_tests.harness.system import System, application
from tests.cluster.test_logs import until_logged
from tests.reference import JUNCTIONS

STEP = {"junction_id": JUNCTIONS[0], "obs_data": [0.5]}
HEADERS = {"x-request-id": "r-1"}


@pytest.fixture
def wrapped(system: System) -> Iterator[str]:
    """Deploy an inference whose every request has a line in Serve's access log."""
    config = application("wrapped", "/wrapped")
    config["deployments"][0]["logging_config"] = {"enable_access_log": True}
    system.deploy(config)
    yield f"{system.url}/wrapped"
    system.remove("wrapped")


async def test_it_is_used_where_nothing_is_lost_by_it_and_answers_are_the_same(
    system: System, wrapped: str, run_id: str
) -> None:
    headers = HEADERS | {"X-Simulation-Run": run_id}  # whose states nobody has stepped
    async with httpx.AsyncClient(timeout=10) as client:
        answers = [
            await client.post(f"{url}/predict_action", json=STEP, headers=headers)
            for url in (system.url, wrapped)
        ]
    lane, wrapper = answers
    lane.headers.pop("connection", None)
    assert (lane.status_code, lane.content) == (wrapper.status_code, wrapper.content)
    assert lane.headers["x-request-id"] == "r-1"
    # HAProxy closes a connection that it had before it was told of a new application.
    assert lane.headers.keys() == wrapper.headers.keys() - {"connection"}
    await until_logged(system, "replica_inference_Inference", "pass Serve's wrapper by")
    await until_logged(system, "replica_wrapped_Inference", "because enable_access_log is on")
    await until_logged(system, "replica_wrapped_Inference", "POST /wrapped/predict_action 200")


async def test_a_request_can_still_ask_serve_for_a_time_limit(system: System) -> None:
    limit = {"x-request-timeout-seconds": "5"}
    async with httpx.AsyncClient(base_url=system.url, timeout=10) as client:
        answer = await client.post("/predict_action", json=STEP, headers=limit)
    assert answer.status_code == 200


async def test_a_replica_that_is_removed_answers_what_it_has_taken(system: System) -> None:
    config = application("leaving", "/leaving")
    config["deployments"][0]["graceful_shutdown_timeout_s"] = 10
    system.deploy(config)
    statuses: list[int] = []
    async with httpx.AsyncClient(base_url=f"{system.url}/leaving", timeout=30) as client:
        assert (await client.post("/predict_action", json=STEP)).status_code == 200
        removed = asyncio.create_task(asyncio.to_thread(system.remove, "leaving"))
        while not removed.done():
            answer = await client.post("/predict_action", json=STEP)
            statuses.append(answer.status_code)
            if answer.status_code == 404:  # HAProxy knows the application no longer
                break
        await removed
    assert set(statuses) <= {200, 404}
