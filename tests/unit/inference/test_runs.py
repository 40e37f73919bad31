"""Runs are listed, ended, forked, exported and imported."""

import asyncio
import json
import re
import struct
import threading
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic_core import from_json
from safetensors.numpy import save

from deployments.inference import runs
from deployments.inference.api import MAX_BODY, create_app
from models.networks.shipped import SHIPPED
from tests.unit.inference.policies import BIG, REFERENCE, SMALL, observations
from tests.unit.inference.replicas import HIGH, LOW, SECOND, reconfigure, running
from tests.unit.inference.serving import client_of

OBS = observations(6, size=4)


async def predict(client: httpx.AsyncClient, run: str, junction: str, obs: Any) -> tuple[int, int]:
    """Return action and step."""
    body = {"junction_id": junction, "obs_data": list(obs)}
    answer = await client.post("/predict_action", json=body, headers={"X-Simulation-Run": run})
    assert answer.status_code == 200, answer.text
    return answer.json()["action"], int(answer.headers["x-hidden-state-step"])


async def drive(client: httpx.AsyncClient, run: str, junction: str = SMALL, n: int = 3) -> None:
    for obs in OBS[:n]:
        await predict(client, run, junction, obs)


async def goes_on(client: httpx.AsyncClient, run: str, n: int = 3) -> None:
    """Assert that the next step of a run is that after the first n observations."""
    action, _ = REFERENCE.replay(SMALL, OBS[: n + 1])[-1]
    assert await predict(client, run, SMALL, OBS[n]) == (action, n + 1)


async def steps_of(client: httpx.AsyncClient) -> dict[str, dict[str, int]]:
    runs = (await client.get("/runs")).json()["runs"]
    return {each["run"]: each["steps"] for each in runs}


async def test_runs_are_listed_with_their_steps(client):
    assert (await client.get("/runs")).json() == {"runs": []}
    await drive(client, "one")
    await drive(client, "two", BIG, 1)
    assert await steps_of(client) == {"two": {BIG: 1}, "one": {SMALL: 3}}
    one = (await client.get("/runs/one")).json()
    assert (one["run"], one["steps"]) == ("one", {SMALL: 3})
    assert 0 <= one["idle_seconds"] < 5
    assert (await client.get("/runs/three")).status_code == 404


KEY = {"Idempotency-Key": "key"}


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/reset_hidden"), ("DELETE", "/runs/default")], ids=str
)
async def test_a_repeated_reset_clears_no_step_that_was_made_since(client, method, path):
    await drive(client, "default")
    for step in (1, 2):
        assert (await client.request(method, path, headers=KEY)).status_code == 200
        assert (await predict(client, "default", SMALL, OBS[0]))[1] == step
    await client.request(method, path, headers={"Idempotency-Key": "another"})
    assert (await predict(client, "default", SMALL, OBS[0]))[1] == 1


async def test_a_repeated_fork_or_import_changes_nothing_more(client):
    await drive(client, "one")
    file = (await client.get("/runs/one/state")).content
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/runs/one/fork", {"json": {"run_id": "two"}}),
        ("PUT", "/runs/two/state", {"content": file}),
    ]
    for method, path, body in changes:
        for n in range(2):
            answer = await client.request(method, path, headers=KEY, **body)
            assert answer.json() == {"run": "two", "steps": {SMALL: 3}}
            assert (await predict(client, "two", SMALL, OBS[0]))[1] == 4 + n
        await client.delete("/runs/one")  # the fork needs it no more


STEP = b'{"junction_id": "300839359", "obs_data": [0.5]}'
NOT_A_KEY = "An idempotency key is 1 to 64 characters of A-Z a-z 0-9 . _ : -"


@pytest.mark.parametrize("key", ["", "a b", "x" * 65])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/predict_action", STEP),
        ("POST", "/predict_actions", b'{"items": [%b]}' % STEP),
        ("POST", "/reset_hidden", b""),
        ("DELETE", "/runs/one", b""),
        ("POST", "/runs/one/fork", b'{"run_id": "two"}'),
        ("PUT", "/runs/one/state", b""),
    ],
    ids=str,
)
async def test_an_invalid_key_of_a_request_is_400_and_changes_nothing(
    client, method, path, body, key
):
    await drive(client, "one")
    headers = {"Idempotency-Key": key, "X-Simulation-Run": "one"}
    answer = await client.request(method, path, content=body, headers=headers)
    assert (answer.status_code, answer.json()) == (400, {"detail": NOT_A_KEY})
    await goes_on(client, "one")


async def test_a_run_is_found_however_many_were_used_since(client, monkeypatch):
    monkeypatch.setattr(runs, "MAX_LISTED", 2)
    for run in ("one", "two", "three"):
        await drive(client, run, SMALL, 1)
        await asyncio.sleep(1.1 if run == "one" else 0)
    assert set(await steps_of(client)) == {"two", "three"}
    assert (await client.get("/runs/one")).json()["steps"] == {SMALL: 1}


BAD_FORKS = {
    "to itself": ("one", b'{"run_id": "one"}', 400),
    "a name of a wrong form": ("one", b'{"run_id": "a b"}', 400),
    "no name": ("one", b"{}", 422),
    "a name that JSON cannot repeat": ("one", b'{"run_id": "\\ud800"}', 422),
    "not a number": ("one", b'{"run_id": NaN}', 422),
    "an unknown member": ("one", b'{"run_id": "two", "steps": 5}', 422),
    "of no run": ("three", b'{"run_id": "two"}', 404),
    "too long": ("one", bytes(MAX_BODY + 1), 413),
}


@pytest.mark.parametrize(("run", "body", "status"), BAD_FORKS.values(), ids=list(BAD_FORKS))
async def test_a_bad_fork_is_refused_and_changes_nothing(client, run, body, status):
    await drive(client, "one")
    await drive(client, "two")
    answer = await client.post(f"/runs/{run}/fork", content=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]
    for each in ("one", "two"):
        await goes_on(client, each)


async def test_a_run_is_not_forked_to_one_of_a_canary(client, service, alone):
    await reconfigure(service, canary=alone.canary(share=0.5))
    for run in (HIGH, LOW):  # the canary answers the latter
        await drive(client, run)
    assert await steps_of(client) == {LOW: {SMALL: 3}, HIGH: {SMALL: 3}}
    answer = await client.post(f"/runs/{HIGH}/fork", json={"run_id": LOW})
    assert (answer.status_code, LOW in answer.json()["detail"]) == (409, True)


async def test_a_fork_has_the_states_of_every_policy(client, service, alone):
    await drive(client, "one", n=2)
    await reconfigure(service, canary=alone.canary(share=1))
    await drive(client, "one", n=3)
    answer = await client.post("/runs/one/fork", json={"run_id": "fork"})
    assert answer.json() == {"run": "fork", "steps": {SMALL: 3}}
    action, _ = SECOND.replay(SMALL, OBS[:4])[-1]
    assert await predict(client, "fork", SMALL, OBS[3]) == (action, 4)
    await reconfigure(service)
    for run in ("one", "fork"):
        await goes_on(client, run, n=2)
    assert (await client.get("/runs/fork")).json()["steps"] == {SMALL: 3}


async def test_a_canary_that_begins_during_a_fork_gets_no_state_of_the_other_policy(
    client, service, alone, monkeypatch
):
    read = service.engine._rows_of

    async def and_then_the_canary(run: str) -> Any:
        rows = await read(run)
        monkeypatch.undo()
        await reconfigure(service, canary=alone.canary(share=0.5))
        return rows

    await drive(client, HIGH)
    monkeypatch.setattr(service.engine, "_rows_of", and_then_the_canary)
    assert (await client.post(f"/runs/{HIGH}/fork", json={"run_id": LOW})).is_success
    assert (await client.get(f"/runs/{LOW}")).status_code == 404
    action, _ = SECOND.replay(SMALL, OBS[:1])[-1]
    assert await predict(client, LOW, SMALL, OBS[0]) == (action, 1)
    await reconfigure(service)
    await goes_on(client, LOW)


def file_of(**changes: Any) -> bytes:
    arrays: dict[str, Any] = {
        "hidden": np.zeros((1, 128), np.float32),
        "steps": np.array([3], np.int64),
    }
    metadata = {
        "form": "greenwave.run.1",
        "network": SHIPPED.digest,
        "junctions": json.dumps([SMALL]),
    }
    for name, value in changes.items():
        (metadata if isinstance(value, str) else arrays)[name] = value
    return save(arrays, metadata)


def headed(head: Any, header: bytes = b"") -> bytes:
    header = header or json.dumps(head, separators=(",", ":")).encode()
    return struct.pack("<Q", len(header)) + header + bytes(520)


NOT_FINITE = np.full((1, 128), np.nan, np.float32)
BAD_FILES = {
    "empty": b"",
    "text": b"no safetensors",
    "cut short": file_of()[:-1],
    "without metadata": save({"hidden": NOT_FINITE}),
    "another network": file_of(network="0123"),
    "another form": file_of(form="greenwave.run.2"),
    "an unknown junction": file_of(junctions='["nowhere"]'),
    "a junction twice": file_of(
        junctions=json.dumps([SMALL, SMALL]),
        hidden=np.zeros((2, 128), np.float32),
        steps=np.array([1, 1]),
    ),
    "junctions that are no list": file_of(junctions="7"),
    "junctions that are no names": file_of(junctions="[[1]]"),
    "states of another size": file_of(hidden=np.zeros((1, 64), np.float32)),
    "another data type": file_of(hidden=np.zeros((1, 128))),
    "not finite": file_of(hidden=NOT_FINITE),
    "another tensor": file_of(more=np.zeros(1)),
    "a header of many tensors": headed(
        {f"{n:x}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(290_000)}
    ),
    "a header that is nested": headed([], b"[" * 60_000),
    "sizes that are not declared": headed(
        {
            "__metadata__": {"form": "greenwave.run.1", "junctions": json.dumps([SMALL])},
            "hidden": {"dtype": "F32", "shape": [1, 128], "data_offsets": [0, 512]},
            "steps": {"dtype": "I64", "shape": [1], "data_offsets": [512, 1 << 40]},
        }
    ),
    "no steps": file_of(steps=np.array([0])),
    "more steps than can be counted": file_of(steps=np.array([2**63 - 1])),
    "fewer steps than states": file_of(steps=np.array([], np.int64)),
}


@pytest.mark.parametrize("file", BAD_FILES.values(), ids=list(BAD_FILES))
async def test_a_bad_file_is_refused_in_a_sentence_and_changes_nothing(client, file):
    await drive(client, "one")
    answer = await client.put("/runs/one/state", content=file)
    assert answer.status_code == 422, answer.text
    why = "not the file of a run|another network|damaged|outside"
    assert re.search(why, answer.json()["detail"])
    await goes_on(client, "one")


@pytest.mark.parametrize("value", [3.4e38, 1e30, 2.0, -2.0, np.nextafter(np.float32(1), 2)])
async def test_a_hidden_state_that_no_policy_makes_is_refused(client, value):
    await drive(client, "one")
    hidden = np.zeros((1, 128), np.float32)
    hidden[0, 5] = value
    answer = await client.put("/runs/one/state", content=file_of(hidden=hidden))
    assert (answer.status_code, "outside [-1, 1]" in answer.text) == (422, True)
    await goes_on(client, "one")
    hidden[0, :2], hidden[0, 5] = (1, -1), 0
    assert (await client.put("/runs/one/state", content=file_of(hidden=hidden))).is_success
    assert (await predict(client, "one", SMALL, OBS[0]))[1] == 4


async def test_a_large_header_is_not_parsed_and_no_file_is_read_in_the_event_loop(
    client, monkeypatch
):
    seen: list[int] = []

    def parse(head: bytes) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        seen.append(len(head))
        return from_json(head)

    monkeypatch.setattr(runs, "from_json", parse)
    large = BAD_FILES["a header of many tensors"]
    assert (await client.put("/runs/one/state", content=large)).status_code == 422
    assert seen == []
    assert (await client.put("/runs/one/state", content=file_of())).status_code == 200
    assert len(seen) == 1


async def test_a_file_that_is_too_large_or_of_a_bad_name_is_refused(client):
    answer = await client.put("/runs/one/state", content=bytes(17 * 1024 * 1024))
    assert answer.status_code == 413
    assert (await client.put("/runs/a b/state", content=file_of())).status_code == 400
    assert (await client.get("/runs/a b/state")).status_code == 400


async def test_a_run_beyond_the_limit_on_states_is_refused(policy_folder):
    async with (
        running(1, policy_folder, max_states=3) as replicas,
        client_of(create_app(replicas.services[0])) as client,
    ):
        await drive(client, "one")
        await drive(client, "one", BIG)
        answer = await client.post("/runs/one/fork", json={"run_id": "two"})
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
        await goes_on(client, "one")
