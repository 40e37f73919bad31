"""Requests that pass Serve's wrapper by: Serve knows of them, and ends no replica under them."""

from collections.abc import Iterator

import httpx
import pytest

from load_tests.harness.system import System, application
from tests.reference import JUNCTIONS
from tests.support.waiting import until_async

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
    system, wrapped, run_id
):
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
    await until_async(
        lambda: "pass Serve's wrapper by" in system.serve_logs("replica_inference_Inference")
    )
    await until_async(
        lambda: "because enable_access_log is on" in system.serve_logs("replica_wrapped_Inference")
    )
    await until_async(
        lambda: "POST /wrapped/predict_action 200" in system.serve_logs("replica_wrapped_Inference")
    )
