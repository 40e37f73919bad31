"""Which answers get a line, and what the line tells, driven through the table of routes."""

import json
import logging
from typing import Any

import httpx
import pytest
from starlette.types import Scope

from deployments.http.access_log import MAX_PARSED, AccessLog
from deployments.http.errors import OverloadedError
from deployments.http.messages import JSON_HEADERS, Answer
from tests.unit.http import apps
from tests.unit.http.apps import PATH


@pytest.fixture(autouse=True)
def _every_level(caplog):
    caplog.set_level(logging.INFO, logger="ray.serve")


def client_of(access_log: AccessLog, **options: Any) -> httpx.AsyncClient:
    async def step(scope: Scope, body: bytes) -> Answer:
        if b"fail" in body:
            raise OverloadedError
        return 200, b"{}", JSON_HEADERS

    return apps.client_of(apps.app_with(step, max_body=1 << 20, access_log=access_log, **options))


def lines_in(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [each for each in caplog.records if hasattr(each, "ms")]


async def test_a_share_of_the_answers_has_one_each(caplog):
    await client_of(AccessLog(draw=pytest.fail)).post(PATH, content=b"{}")
    draws = iter([0.0, 0.0099, 0.01, 0.5, 0.999])
    client = client_of(AccessLog(0.01, draw=lambda: next(draws)))
    for _ in range(5):
        await client.post(PATH, content=b"{}")
    assert len(lines_in(caplog)) == 2


async def test_failures_always_have_lines_but_one_a_second_which_tells_of_the_others(caplog):
    now = 0.0
    client = client_of(AccessLog(clock=lambda: now))
    for _ in range(12):
        await client.post(PATH, content=b"fail")
        now += 0.25
    told = lines_in(caplog)
    assert [each.left_out for each in told] == [0, 3, 3]
    assert {each.levelname for each in told} == {"INFO"}
    assert told[1].getMessage().startswith(f"POST {PATH} 503 in ")
    assert told[1].getMessage().endswith(" ms, and 3 failures before")


async def test_a_line_tells_who_asked_what_and_what_became_of_it(caplog):
    client = client_of(AccessLog(1.0))
    body: dict[str, Any] = {"junction_id": "300839359", "obs_data": [], "run_id": "morning"}
    await client.post(PATH, json=body)
    await client.post(PATH, json={"junctionId": "1"}, headers={"X-Simulation-Run": "evening"})
    await client.get("/status")
    first, second, third = lines_in(caplog)
    assert (first.method, first.path, first.status) == ("POST", PATH, 200)
    assert 0 < first.ms < 10_000
    assert first.about == {"run": "morning", "junction": "300839359"}
    assert second.about == {"run": "evening", "junction": "1"}
    assert (third.method, third.path, third.status, third.about) == ("GET", "/status", 200, {})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"{",
        b"\xff",
        b"[" * 50_000,
        json.dumps({"run_id": "a\nb", "junction_id": ["x"]}).encode(),
        json.dumps({"run_id": "far", "filled": "x" * MAX_PARSED}).encode(),
    ],
    ids=["empty", "list", "broken", "no text", "nested", "no names", "long"],
)
async def test_what_a_client_sends_spoils_no_line(caplog, content):
    client = client_of(AccessLog(1.0))
    answer = await client.post(PATH, content=content, headers={"X-Simulation-Run": "a b"})
    assert answer.status_code == 200
    (line,) = lines_in(caplog)
    assert line.about == {}


async def test_a_path_cannot_make_a_second_line(caplog):
    await client_of(AccessLog(1.0)).get("/x%0aERROR%20forged" + "y" * 500)
    (line,) = lines_in(caplog)
    assert line.status == 404
    assert line.path.startswith("/x%0AERROR%20forged")
    assert "\n" not in line.getMessage()
    assert len(line.path) < 300


async def test_who_asks_for_readiness_in_an_outage_fills_no_log(caplog):
    client = client_of(AccessLog(1.0), logged=False)
    assert (await client.post(PATH, content=b"fail")).status_code == 503
    assert lines_in(caplog) == []
