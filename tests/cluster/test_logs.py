"""Refusals cross processes in one sentence, and state actors have logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from load_tests.harness.system import System, application
from tests.reference import JUNCTIONS

STEP = {"junction_id": JUNCTIONS[0], "obs_data": [0.5]}


@pytest.fixture
def small(system: System) -> Iterator[str]:
    """Deploy an inference application that keeps one state."""
    system.deploy(application("small", "/small", max_states=1))
    yield f"{system.url}/small"
    system.remove("small")


async def until_logged(system: System, name: str, text: str) -> str:
    async with asyncio.timeout(10):
        while text not in system.serve_logs(name):
            await asyncio.sleep(0.1)
    return next(line for line in system.serve_logs(name).splitlines() if text in line)


async def test_a_refusal_is_one_sentence_and_the_log_of_the_state_actor_has_its_term(
    system: System, small: str
) -> None:
    async with httpx.AsyncClient(base_url=small, timeout=10) as client:
        answers = [
            await client.post("/predict_action", json=STEP, headers={"X-Simulation-Run": run})
            for run in ("old", "new", "old")
        ]
        assert [answer.status_code for answer in answers] == [200, 503, 200]
        assert answers[1].json() == {
            "detail": "All 1 hidden states (max_states) are in use. Reset a run, or wait until "
            "an idle one expires"
        }
        assert answers[1].headers["x-error-code"] == "too_many_states"
        assert answers[1].headers["retry-after"] == "60"
        assert (await client.get("/health")).json()["status"] == "unhealthy"
    await until_logged(system, "hidden_states_small_0", " begins, with 0 hidden states")
