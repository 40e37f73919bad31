"""Hidden states are exact over real HTTP through the edge, on two replicas of a service."""

import asyncio
import socket
import uuid

import httpx
import pytest

from greenwave.client import Client
from load_tests.chaos import clients
from load_tests.chaos.history import History, Key
from load_tests.harness.system_under_test import SystemUnderTest
from tests.cluster.load import Load, assert_is_serial
from tests.reference import JUNCTIONS, ReferenceJunction

SERVICES = ["", "/durable"]
"""Of the default mode; and of one whose answers wait for the store, on two shards."""


@pytest.fixture(params=SERVICES, ids=["memory", "durable"])
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(inference: httpx.Client, service: str, run_id: str) -> httpx.Client:
    inference.base_url = f"{inference.base_url}{service}"
    inference.headers["X-Simulation-Run"] = run_id
    return inference


def load_of(sut: SystemUnderTest, service: str, run: str, n_clients: int = 8) -> Load:
    url, token = sut.instance.base_url + service, sut.env["INFERENCE_TOKEN"]
    return Load(url, run, n_clients=n_clients, token=token)


def predict(client: httpx.Client, junction: str, observation: list[float]) -> httpx.Response:
    body = {"junction_id": junction, "obs_data": observation}
    return client.post("/predict_action", json=body).raise_for_status()


async def test_64_concurrent_requests_for_one_junction_are_64_steps(sut, service, weights, run_id):
    async with load_of(sut, service, run_id, n_clients=0) as load:
        requests = (load.predict(JUNCTIONS[0], (n / 64, 1.0 - n / 64)) for n in range(64))
        await asyncio.gather(*requests)
    assert not load.failures
    assert sorted(answer.step for answer in load.answers) == list(range(1, 65))
    assert_is_serial(load.history, weights)


async def test_mixed_load_is_one_serial_history_per_junction(sut, service, weights, run_id):
    async with load_of(sut, service, run_id) as load:
        await load.more(800)
    assert not load.failures
    assert_is_serial(load.history, weights)


async def test_after_a_reset_predictions_start_from_zeros_while_others_race_with_it(
    sut, client, service, weights, run_id
):
    async with load_of(sut, service, run_id, n_clients=6) as load:
        for _ in range(10):
            await load.more(40)
            await load.reset()
    assert load.failures == []
    assert_is_serial(load.history, weights)
    answer = client.post("/reset_hidden")
    assert answer.json() == {"status": "ok", "message": "Hidden states reset for all junctions"}
    for junction in JUNCTIONS:
        answer = predict(client, junction, [0.5])
        _, confidence = ReferenceJunction(weights, junction).step([0.5])
        assert answer.headers["x-hidden-state-step"] == "1"
        assert answer.json()["confidence"] == pytest.approx(confidence, abs=2e-4)


def test_a_fork_an_import_and_the_run_itself_continue_alike(inference, service, run_id):
    def step(run: str, value: float) -> list[tuple[int, float]]:
        items = [{"junction_id": each, "obs_data": [value, 0.5]} for each in JUNCTIONS]
        answer = inference.post(
            f"{service}/predict_actions", json={"items": items}, headers={"X-Simulation-Run": run}
        )
        found = answer.raise_for_status().json()["items"]
        return [(each["action"], each["confidence"]) for each in found]

    for n in range(3):
        step(run_id, n / 10)
    runs, fork, copy = f"{service}/runs", f"{run_id}.fork", f"{run_id}.copy"
    for _ in range(2):  # the second one replaces the first
        answer = inference.post(f"{runs}/{run_id}/fork", json={"run_id": fork})
        assert answer.raise_for_status().json()["steps"] == dict.fromkeys(JUNCTIONS, 3)
    state = inference.get(f"{runs}/{run_id}/state").raise_for_status().content
    inference.put(f"{runs}/{copy}/state", content=state).raise_for_status()
    expected = step(run_id, 0.7)
    assert step(fork, 0.7) == expected
    assert step(copy, 0.7) == expected
    assert step(f"{run_id}.new", 0.7) != expected
    inference.delete(f"{runs}/{fork}").raise_for_status()
    assert inference.get(f"{runs}/{fork}").status_code == 404
    assert {run_id, copy} <= {each["run"] for each in inference.get(runs).json()["runs"]}


async def test_clients_that_disconnect_leave_a_whole_number_of_steps(sut, weights, run_id):
    lines = [f"{name}: {value}" for name, value in sut.inference_access().items()]
    body = b'{"junction_id": "%b", "obs_data": [0.3, 0.7]}' % JUNCTIONS[0].encode()
    lines += ["Host: test", f"X-Simulation-Run: {run_id}", f"Content-Length: {len(body)}"]
    whole = "\r\n".join(["POST /predict_action HTTP/1.1", *lines, "", ""]).encode() + body

    def disconnect(data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", sut.instance.ports.front)) as client:
            client.sendall(data)

    async with load_of(sut, "", run_id, n_clients=0) as load:
        for _ in range(10):
            await asyncio.gather(*(asyncio.to_thread(disconnect, whole[:-5]) for _ in range(20)))
            await load.predict(JUNCTIONS[0], (0.3, 0.7))
        # half a body is no request: nothing but the ten predictions has made a step
        assert [answer.step for answer in load.answers] == list(range(1, 11))
        for _ in range(10):
            gone = (asyncio.to_thread(disconnect, whole) for _ in range(30))
            await asyncio.gather(load.predict(JUNCTIONS[0], (0.3, 0.7)), *gone)
        last = await load.predict(JUNCTIONS[0], (0.3, 0.7))
    assert not load.failures
    assert 21 <= last.step <= 21 + 300
    reference = ReferenceJunction(weights, JUNCTIONS[0])
    confidences = [reference.step((0.3, 0.7))[1] for _ in range(last.step)]
    for answer in load.answers:
        assert answer.confidence == pytest.approx(confidences[answer.step - 1], abs=2e-4)


async def test_a_request_is_one_step_however_often_it_is_sent(sut, service, weights, run_id):
    """Send each request with its key twice at once and once afterwards, from two runs."""
    url, token = sut.instance.base_url + service, sut.env["INFERENCE_TOKEN"]
    history, n_requests = History(), 40
    async with clients.Client(url, history, 16, token=token) as client:

        async def ask(key: Key, n: int) -> None:
            request = f"{uuid.uuid4().hex[:8]}.{n}"
            for times in (2, 1):
                attempts = (client.predict_until_answered(key, request) for _ in range(times))
                answers = await asyncio.gather(*attempts)
            assert len({answer.body for answer in answers}) == 1

        keys = [Key(f"{run_id}.{number}", JUNCTIONS[0]) for number in range(2)]
        await asyncio.gather(*(ask(key, n) for key in keys for n in range(n_requests)))
    for _, asked in history.by_key():
        assert max(each.step for each in asked) == n_requests
    assert_is_serial(history, weights)


def test_predictions_through_the_gateway_are_of_the_same_run(addresses, known, weights, run_id):
    password, token = known["JWT_AUTH_PASSWORD"], known["INFERENCE_TOKEN"]
    with Client(addresses, "operator", password, inference_token=token) as client:
        run, direct = client.run(run_id), client.inference.run(run_id)
        reference = ReferenceJunction(weights, JUNCTIONS[1])
        expected = [reference.step([1, 0, 1, 0.4]) for _ in range(3)]
        decision = run.act(JUNCTIONS[1], [1, 0, 1, 0.4])
        assert (decision.is_fallback, decision.action) == (False, expected[0][0])
        assert direct.predict(JUNCTIONS[1], [1, 0, 1, 0.4]).action == expected[1][0]
        again = run.act(JUNCTIONS[1], [1, 0, 1, 0.4], key=decision.key)
        assert again.action == decision.action
        third = direct.predict(JUNCTIONS[1], [1, 0, 1, 0.4])
        assert third.step == 3
        assert third.confidence == pytest.approx(expected[2][1], abs=2e-4)
        run.reset()
        assert direct.predict(JUNCTIONS[1], [0.5]).step == 1
