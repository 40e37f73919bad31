"""Runs are listed, ended, forked, exported and imported."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import load, save

from deployments.inference.api import MAX_BODY, create_app
from deployments.inference.options import InferenceOptions
from models.networks.shipped import SHIPPED
from tests.unit.inference.policies import BIG, REFERENCE, SMALL, observations
from tests.unit.inference.replicas import HIGH, LOW, reconfigure, running
from tests.unit.inference.serving import FakeService, client_of

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


async def goes_on(client: httpx.AsyncClient, run: str, junction: str = SMALL, n: int = 3) -> None:
    """Assert that the next step of a run is that after the first n observations."""
    action, _ = REFERENCE.replay(junction, OBS[: n + 1])[-1]
    assert await predict(client, run, junction, OBS[n]) == (action, n + 1)


async def steps_of(client: httpx.AsyncClient) -> dict[str, dict[str, int]]:
    runs = (await client.get("/runs")).json()["runs"]
    return {each["run"]: each["steps"] for each in runs}


async def until_committed(client: httpx.AsyncClient, expected: dict[str, dict[str, int]]) -> None:
    async with asyncio.timeout(5):
        while await steps_of(client) != expected:
            await asyncio.sleep(0.005)


async def test_runs_are_listed_with_their_steps_and_owners(client):
    assert (await client.get("/runs")).json() == {"runs": []}
    await drive(client, "one")
    await drive(client, "two", BIG, 1)
    await until_committed(client, {"two": {BIG: 1}, "one": {SMALL: 3}})
    one = (await client.get("/runs/one")).json()
    assert (one["run"], one["steps"], len(one["owners"])) == ("one", {SMALL: 3}, 1)
    assert 0 <= one["idle_seconds"] < 5
    assert (await client.get("/runs/three")).status_code == 404


async def test_an_ended_run_begins_anew(client):
    await drive(client, "one")
    assert (await client.delete("/runs/one")).status_code == 200
    assert await steps_of(client) == {}
    assert (await predict(client, "one", SMALL, OBS[0]))[1] == 1
    assert (await client.delete("/runs/never-begun")).status_code == 200


async def test_a_fork_goes_on_from_the_states_and_leaves_the_run_as_it_is(client):
    await drive(client, "one")
    await drive(client, "one", BIG, 2)
    await drive(client, "fork", BIG, 5)  # is cleared
    answer = await client.post("/runs/one/fork", json={"run_id": "fork"})
    assert answer.json() == {"run": "fork", "steps": {BIG: 2, SMALL: 3}}
    for run in ("one", "fork"):
        await goes_on(client, run)
        await goes_on(client, run, BIG, 2)


async def test_an_exported_run_is_restored_under_any_name(client):
    await drive(client, "one")
    file = (await client.get("/runs/one/state")).content
    await drive(client, "one", SMALL, 2)
    for run in ("one", "two"):
        answer = await client.put(f"/runs/{run}/state", content=file)
        assert answer.json() == {"run": run, "steps": {SMALL: 3}}
        await goes_on(client, run)


async def test_a_run_moves_between_two_systems(client, replicas):
    await drive(client, "one")
    file = (await client.get("/runs/one/state")).content
    async with client_of(create_app(replicas.services[0])) as other:
        assert (await other.put("/runs/moved/state", content=file)).status_code == 200
    async with client_of(create_app(replicas.services[1])) as other:
        answer = await other.get("/runs/moved/state")
    assert load(answer.content)["hidden"].tolist() == load(file)["hidden"].tolist()


async def test_a_fork_while_the_run_is_stepped_has_each_junction_after_one_of_its_steps(client):
    async def go_on() -> None:
        for obs in observations(40, size=4):
            await predict(client, "one", SMALL, obs)

    driving = asyncio.create_task(go_on())
    forks: dict[str, int] = {}
    while not driving.done():
        name = f"fork{len(forks)}"
        answer = await client.post("/runs/one/fork", json={"run_id": name})
        if answer.status_code == 200:
            forks[name] = answer.json()["steps"][SMALL]
        await asyncio.sleep(0.001)
    await driving
    assert list(forks.values()) == sorted(forks.values())
    for name, n in forks.items():
        obs = observations(40, size=4)[: n + 1] if n < 40 else None
        if obs:
            action, _ = REFERENCE.replay(SMALL, obs)[-1]
            assert await predict(client, name, SMALL, obs[-1]) == (action, n + 1)
    assert (await predict(client, "one", SMALL, [0.5]))[1] == 41


BAD_FORKS = {
    "to itself": ("one", {"run_id": "one"}, 400),
    "a name of a wrong form": ("one", {"run_id": "a b"}, 400),
    "no name": ("one", {}, 422),
    "of no run": ("three", {"run_id": "two"}, 404),
}


@pytest.mark.parametrize(("run", "body", "status"), BAD_FORKS.values(), ids=list(BAD_FORKS))
async def test_a_bad_fork_is_refused_and_changes_nothing(client, run, body, status):
    await drive(client, "one")
    await drive(client, "two")
    answer = await client.post(f"/runs/{run}/fork", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]
    for each in ("one", "two"):
        await goes_on(client, each)


@pytest.mark.parametrize("name", ["NaN", "1e999", '"\\ud800"', "[" * 1000])
async def test_a_fork_with_a_name_that_json_cannot_repeat_is_422(client, name):
    await drive(client, "one")
    answer = await client.post("/runs/one/fork", content=f'{{"run_id": {name}}}'.encode())
    assert (answer.status_code, [*answer.json()]) == (422, ["detail"])


async def test_the_body_of_a_fork_is_read_up_to_its_limit():
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            yield bytes(1024)
            sent += 1024

    async with client_of(create_app(FakeService())) as client:
        answer = await client.post("/runs/one/fork", content=endless())
    assert answer.status_code == 413
    assert sent <= MAX_BODY


async def test_a_run_is_not_forked_to_one_of_a_canary(policy_folder):
    async with running(1, policy_folder) as replicas:
        (service,) = replicas.services
        await reconfigure(service, canary=replicas.canary(share=0.5))
        async with client_of(create_app(service)) as client:
            for run in (HIGH, LOW):  # the canary answers the latter
                await drive(client, run)
            await until_committed(client, {LOW: {SMALL: 3}, HIGH: {SMALL: 3}})
            answer = await client.post(f"/runs/{HIGH}/fork", json={"run_id": LOW})
            assert (answer.status_code, LOW in answer.json()["detail"]) == (409, True)


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
        (arrays if name in arrays else metadata)[name] = value
    return save(arrays, metadata)


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
    "no steps": file_of(steps=np.array([0])),
    "more steps than can be counted": file_of(steps=np.array([2**63 - 1])),
    "fewer steps than states": file_of(steps=np.array([], np.int64)),
}


@pytest.mark.parametrize("file", BAD_FILES.values(), ids=list(BAD_FILES))
async def test_a_bad_file_is_refused_in_a_sentence_and_changes_nothing(client, file):
    await drive(client, "one")
    answer = await client.put("/runs/one/state", content=file)
    assert answer.status_code == 422, answer.text
    assert re.search("not the file of a run|another network|damaged", answer.json()["detail"])
    await goes_on(client, "one")


async def test_a_file_that_is_too_large_or_of_a_bad_name_is_refused(client):
    answer = await client.put("/runs/one/state", content=bytes(17 * 1024 * 1024))
    assert answer.status_code == 413
    assert (await client.put("/runs/a b/state", content=file_of())).status_code == 400
    assert (await client.get("/runs/a b/state")).status_code == 400


async def test_a_run_beyond_the_limit_on_states_is_refused(policy_folder):
    async with (
        running(1, policy_folder, InferenceOptions(max_states=3)) as replicas,
        client_of(create_app(replicas.services[0])) as client,
    ):
        await drive(client, "one")
        await drive(client, "one", BIG)
        answer = await client.post("/runs/one/fork", json={"run_id": "two"})
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
        await goes_on(client, "one")
