"""What clients get wrong, over real HTTP through HAProxy: a clear answer, no state changed, the
service up."""

from __future__ import annotations

import asyncio
import collections
import json

import httpx
import pytest

from tests.reference import JUNCTIONS

GOOD = {"junction_id": JUNCTIONS[0], "obs_data": [0.5]}
CASES = [
    ("unknown junction", json.dumps({"junction_id": "x", "obs_data": []}), 404),
    ("20 values", json.dumps({"junction_id": JUNCTIONS[0], "obs_data": [0] * 20}), 400),
    ("string value", '{"junction_id": "300839359", "obs_data": ["1"]}', 422),
    ("boolean value", '{"junction_id": "300839359", "obs_data": [true]}', 422),
    ("NaN", '{"junction_id": "300839359", "obs_data": [NaN]}', 422),
    ("Infinity", '{"junction_id": "300839359", "obs_data": [-Infinity]}', 422),
    ("beyond float32", '{"junction_id": "300839359", "obs_data": [1e39]}', 422),
    ("overflow in the network", json.dumps(GOOD | {"obs_data": [3e38] * 19}), 422),
    ("missing field", '{"junction_id": "300839359"}', 422),
    ("invalid JSON", '{"junction_id": ', 422),
    ("empty body", "", 422),
    ("10 MB body", " " * 10_000_000 + json.dumps(GOOD), 413),
    ("invalid UTF-8", b'{"junction_id": "\xff", "obs_data": []}', 422),
]


def step_of(client: httpx.Client, run: str) -> int:
    response = client.post("/predict_action", json=GOOD, headers={"X-Simulation-Run": run})
    return int(response.headers["x-hidden-state-step"])


@pytest.mark.parametrize(("body", "status"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_wrong_body_gets_a_clear_answer_and_changes_no_state(client, run_id, body, status):
    assert step_of(client, run_id) == 1
    response = client.post("/predict_action", content=body, headers={"X-Simulation-Run": run_id})
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert response.json()["detail"]
    assert step_of(client, run_id) == 2


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_a_wrong_method_is_405_in_json(client, method):
    response = client.request(method, "/predict_action")
    assert response.status_code == 405
    assert response.json() == {"detail": "Method Not Allowed"}


async def test_ten_thousand_concurrent_requests_are_answered_or_refused_in_json(system, run_id):
    body = json.dumps(GOOD).encode()
    request = (
        f"POST /predict_action HTTP/1.1\r\nHost: test\r\nX-Simulation-Run: {run_id}\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    outcomes: collections.Counter[str] = collections.Counter()

    async def one() -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", system.instance.ports.front)
        except OSError:
            outcomes["not connected"] += 1
            return
        try:
            writer.write(request)
            head, _, response = (await reader.read()).partition(b"\r\n\r\n")
            status = head.split(b" ", 2)[1].decode() if head else "closed"
            outcomes[status] += 1
            if status == "503":
                assert b"retry-after" in head.lower()
                assert json.loads(response)["detail"]
        except ConnectionError:
            outcomes["closed"] += 1
        finally:
            writer.close()

    async with asyncio.timeout(100):
        await asyncio.gather(*(one() for _ in range(10_000)))
    assert outcomes["200"] > 0
    assert set(outcomes) <= {"200", "503", "not connected", "closed"}, outcomes
    assert outcomes["200"] + outcomes["503"] > 9_000, outcomes
    async with httpx.AsyncClient(base_url=system.url, timeout=10) as client:
        assert (await client.get("/health")).json()["status"] == "healthy"
        response = await client.post(
            "/predict_action", json=GOOD, headers={"X-Simulation-Run": run_id}
        )
        # a closed connection may hide a response; nothing else may hide a step
        steps = int(response.headers["x-hidden-state-step"]) - 1
        assert outcomes["200"] <= steps <= outcomes["200"] + outcomes["closed"]
