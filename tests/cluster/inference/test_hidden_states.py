"""Hidden-state guarantees, on a real cluster over real HTTP."""

from __future__ import annotations

import asyncio
import functools
import json
import random

import httpx
import pytest

from load_tests.harness.system import application
from tests.cluster.inference.load import Load, assert_is_serial
from tests.reference import JUNCTIONS, ReferenceJunction

pytestmark = pytest.mark.usefixtures("several")

PREFIXES = ["", "/many", "/durable"]
"""Of one replica; of three; and of two whose responses wait for the store, on two shards."""


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_interleaved_junctions_follow_the_reference(system, weights, run_id, prefix):
    references = {junction: ReferenceJunction(weights, junction) for junction in JUNCTIONS}
    chance = random.Random(2)
    run = {"X-Simulation-Run": run_id + prefix.replace("/", ".")}
    async with httpx.AsyncClient(base_url=system.url + prefix, timeout=10) as client:
        for _ in range(120):
            junction = chance.choice(JUNCTIONS)
            obs = [chance.random() for _ in range(chance.randint(0, 19))]
            answer = await client.post(
                "/predict_action", json={"junction_id": junction, "obs_data": obs}, headers=run
            )
            action, confidence = references[junction].step(obs)
            assert answer.json() == {
                "junction_id": junction,
                "action": action,
                "confidence": pytest.approx(confidence, abs=2e-4),
            }


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_64_concurrent_requests_for_one_junction_are_64_steps(
    system, weights, run_id, prefix
):
    run = run_id + prefix.replace("/", ".")
    load = Load(system.url + prefix, run, n_clients=0)
    async with load:
        requests = (load.predict(JUNCTIONS[0], (n / 64, 1.0 - n / 64)) for n in range(64))
        await asyncio.gather(*requests)
    assert not load.failures
    assert sorted(answer.step for answer in load.answers) == list(range(1, 65))
    assert_is_serial(load.history, weights)


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_mixed_load_is_one_serial_history_per_junction(system, weights, run_id, prefix):
    async with Load(system.url + prefix, run_id + prefix.replace("/", ".")) as load:
        await load.more(800)
    assert not load.failures
    assert_is_serial(load.history, weights)


async def test_scaling_up_and_down_under_load_loses_and_repeats_nothing(system, weights, run_id):
    def has_replicas(wanted: int) -> bool:
        return len(system.replicas("many")) == wanted

    async with Load(system.url + "/many", run_id, n_clients=4) as load:
        await load.more(100)
        for replicas in (1, 3):
            change = application("many", "/many", replicas=replicas)
            await asyncio.to_thread(system.deploy, change)
            await load.until(functools.partial(has_replicas, replicas))
            await load.more(100)
    # A request that reaches a stopping replica may fail on its way, never half.
    assert len(load.failures) <= 8, load.failures[:5]
    assert_is_serial(load.history, weights)


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_predictions_after_a_reset_start_from_zeros_while_others_race_with_it(
    system, weights, run_id, prefix
):
    run = run_id + prefix.replace("/", ".")
    headers = {"X-Simulation-Run": run}
    async with (
        Load(system.url + prefix, run, n_clients=6) as load,
        httpx.AsyncClient(base_url=system.url + prefix, timeout=15) as client,
    ):
        for _ in range(10):
            await load.more(40)
            answer = await client.post("/reset_hidden", headers=headers)
            assert answer.json() == {
                "status": "ok",
                "message": "Hidden states reset for all junctions",
            }
    assert load.failures == []
    resets_seen = sum(answer.step == 1 for answer in load.answers)
    assert resets_seen >= 10 * len(JUNCTIONS)
    # quiet now: a last reset, and the next prediction must be exactly the first step
    async with httpx.AsyncClient(base_url=system.url + prefix, timeout=15) as client:
        await client.post("/reset_hidden", headers=headers)
        for junction in JUNCTIONS:
            body = {"junction_id": junction, "obs_data": [0.5]}
            answer = await client.post("/predict_action", json=body, headers=headers)
            _, confidence = ReferenceJunction(weights, junction).step([0.5])
            assert answer.headers["x-hidden-state-step"] == "1"
            assert answer.json()["confidence"] == pytest.approx(confidence, abs=2e-4)


async def test_a_reset_clears_its_own_run_only(client, run_id):
    def step(run: str | None) -> int:
        headers = {"X-Simulation-Run": run} if run else {}
        body = {"junction_id": JUNCTIONS[1], "obs_data": [1.0]}
        return int(
            client.post("/predict_action", json=body, headers=headers).headers[
                "x-hidden-state-step"
            ]
        )

    client.post("/reset_hidden")
    assert [step(run_id), step(run_id), step(None)] == [1, 2, 1]
    client.post("/reset_hidden")
    assert [step(run_id), step(None)] == [3, 1]
    client.post("/reset_hidden", json={"run_id": run_id})
    assert [step(run_id), step(None)] == [1, 2]


async def test_clients_that_disconnect_leave_a_whole_number_of_steps(system, weights, run_id):
    body = json.dumps({"junction_id": JUNCTIONS[0], "obs_data": [0.3, 0.7]}).encode()
    head = (
        f"POST /predict_action HTTP/1.1\r\nHost: test\r\nX-Simulation-Run: {run_id}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()

    async def disconnect(data: bytes) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", system.instance.ports.front)
        writer.write(data)
        await writer.drain()
        writer.close()

    load = Load(system.url, run_id, n_clients=0)
    async with load:
        for _ in range(10):
            await asyncio.gather(*(disconnect(head + body[:-5]) for _ in range(20)))
            await load.predict(JUNCTIONS[0], (0.3, 0.7))
        # half a body is no request: nothing but the ten predictions has made a step
        assert [answer.step for answer in load.answers] == list(range(1, 11))
        for _ in range(10):
            gone = (disconnect(head + body) for _ in range(30))
            await asyncio.gather(load.predict(JUNCTIONS[0], (0.3, 0.7)), *gone)
        last = await load.predict(JUNCTIONS[0], (0.3, 0.7))
    assert not load.failures
    assert 21 <= last.step <= 21 + 300
    reference = ReferenceJunction(weights, JUNCTIONS[0])
    confidences = [reference.step((0.3, 0.7))[1] for _ in range(last.step)]
    for answer in load.answers:
        assert answer.confidence == pytest.approx(confidences[answer.step - 1], abs=2e-4)


async def test_an_idle_run_is_forgotten(system):
    system.deploy(application("brief", "/brief", run_ttl_s=1.0))
    body = {"junction_id": JUNCTIONS[0], "obs_data": []}
    async with httpx.AsyncClient(base_url=system.url + "/brief", timeout=10) as client:

        async def step(run: str) -> int:
            headers = {"X-Simulation-Run": run}
            answer = await client.post("/predict_action", json=body, headers=headers)
            return int(answer.headers["x-hidden-state-step"])

        assert [await step("idle"), await step("idle"), await step("busy")] == [1, 2, 1]
        for expected in range(2, 12):  # the passing of idle time is the condition here
            await asyncio.sleep(0.25)
            assert await step("busy") == expected
        assert await step("idle") == 1
    system.remove("brief")
