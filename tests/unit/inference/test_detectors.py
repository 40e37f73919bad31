"""The diagnosis of detectors travels with the hidden state, through every replica and run."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from safetensors.numpy import load, save

from deployments.feed.messages import Demand
from deployments.inference.api import create_app
from deployments.inference.policies import Role
from models.networks.network import lane_names
from models.networks.shipped import SHIPPED
from models.signals.diagnosis import read_diagnoses
from tests.unit.inference.policies import SMALL
from tests.unit.inference.replicas import running
from tests.unit.inference.serving import client_of

DIAGNOSES = read_diagnoses(SHIPPED)
LANE = lane_names(SHIPPED)[SMALL][0]
STUCK_AFTER = 12  # requests in green at which a full lane that never moves is stuck


@contextlib.asynccontextmanager
async def replicas(folder: Path, n: int) -> AsyncIterator[list[httpx.AsyncClient]]:
    async with (
        running(n, folder, diagnoses=DIAGNOSES) as made,
        contextlib.AsyncExitStack() as stack,
    ):
        apps = [create_app(service) for service in made.services]
        yield [await stack.enter_async_context(client_of(app)) for app in apps]


async def ask(
    client: httpx.AsyncClient, now: int, run: str = "one", key: str | None = None, reads: float = 1
) -> dict[str, object]:
    """Ask in green, with a first lane that never moves and others that do."""
    body = {"junction_id": SMALL, "obs_data": [1, 0, 1, reads, now % 3 / 10, 0.2, now % 2 / 5]}
    headers = {"X-Simulation-Run": run} | ({"Idempotency-Key": key} if key else {})
    answer = await client.post("/predict_action", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    made: dict[str, object] = answer.json()
    return made


async def test_a_stuck_detector_is_named_in_answers_of_whichever_replica_steps(policy_folder):
    async with replicas(policy_folder, 3) as clients:
        answers = [await ask(clients[now % 3], now) for now in range(STUCK_AFTER + 3)]
        found = [answer.get("failed_detectors") for answer in answers]
        assert found == [None] * STUCK_AFTER + [{LANE: "stuck"}] * 3
        assert list(answers[0]) == ["junction_id", "action", "confidence"]


async def test_a_repeated_request_gets_the_same_answer_and_is_no_evidence(policy_folder):
    async with replicas(policy_folder, 2) as clients:
        for now in range(STUCK_AFTER - 2):
            await ask(clients[0], now)
        first = await ask(clients[0], 0, key="again")
        for n in range(STUCK_AFTER):
            assert await ask(clients[n % 2], 0, key="again") == first
        assert "failed_detectors" not in first
        for now in range(1, 5):
            last = await ask(clients[0], now, key=f"key-{now}")
        assert last["failed_detectors"] == {LANE: "stuck"}
        assert await ask(clients[1], 4, key="key-4") == last


async def test_a_fork_and_an_imported_file_go_on_with_the_diagnosis(policy_folder):
    async with replicas(policy_folder, 1) as (client,):
        for now in range(STUCK_AFTER + 2):
            await ask(client, now)
        assert (await client.post("/runs/one/fork", json={"run_id": "fork"})).status_code == 200
        file = (await client.get("/runs/one/state")).content
        assert (await client.put("/runs/copy/state", content=file)).status_code == 200
        for run in ("fork", "copy"):
            assert (await ask(client, 0, run=run))["failed_detectors"] == {LANE: "stuck"}


@pytest.mark.parametrize("value", [7.0, 0.5, -1.0, 1e30])
async def test_a_file_with_a_diagnosis_that_cannot_be_is_refused(policy_folder, value):
    async with replicas(policy_folder, 1) as (client,):
        await ask(client, 0)
        file = (await client.get("/runs/one/state")).content
        arrays = {name: array.copy() for name, array in load(file).items()}
        fault = 128 + 3 + 5  # the first lane's, after the hidden state and three numbers
        arrays["hidden"][0, fault] = value
        header = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])
        answer = await client.put("/runs/one/state", content=save(arrays, header["__metadata__"]))
        assert (answer.status_code, "damaged" in answer.text) == (422, True)
        await ask(client, 1)


async def test_a_run_of_one_setting_is_imported_in_the_other(policy_folder, client):
    await ask(client, 0)
    plain = (await client.get("/runs/one/state")).content
    async with replicas(policy_folder, 1) as (diagnosing,):
        assert (await diagnosing.put("/runs/one/state", content=plain)).status_code == 200
        diagnosed = await ask(diagnosing, 1)
        file = (await diagnosing.get("/runs/one/state")).content
    expected = await ask(client, 1)
    assert diagnosed == expected, "the hidden state is the same, and no detector has failed"
    assert (await client.put("/runs/back/state", content=file)).status_code == 200
    assert await ask(client, 2, run="back") == await ask(client, 2)


async def test_the_policy_sees_the_estimate(policy_folder, client):
    async with replicas(policy_folder, 1) as (diagnosing,):
        diagnosed = await ask(diagnosing, 0, reads=-5)
        assert diagnosed.pop("failed_detectors") == {LANE: "impossible"}
        estimate = (0.0 + 0.2 + 0.0) / 3  # the mean of the three lanes with the same green
        plain = await ask(client, 0, reads=estimate)
    assert diagnosed["action"] == plain["action"]
    assert diagnosed["confidence"] == pytest.approx(plain["confidence"])


async def test_the_console_is_told_which_readings_are_estimates_and_they_are_counted(policy_folder):
    async with running(1, policy_folder, diagnoses=DIAGNOSES) as made:
        (service,) = made.services
        watched = service.policies.watched_steps
        watched.on_demand_changed(Demand(True, frozenset({"one"})))
        async with client_of(create_app(service)) as client:
            await ask(client, 0)
            ((works,), _) = watched.take({"": ""})
            assert works.faults == []
            for now in range(1, STUCK_AFTER + 3):
                await ask(client, now)
        *_, failed = watched.take({"": ""})[0]
        assert failed.faults == ["stuck", "", "", "", ""]
        assert failed.observation[3] < 1, "the reading"
        counts = service.policies.counts[Role("primary", "")]
        assert counts.failed_detectors == {(SMALL, "stuck"): 3}
