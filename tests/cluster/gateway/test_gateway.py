"""The gateway on a real cluster, by each transport, with the inference up and down."""

import concurrent.futures
import time
from collections.abc import Iterator

import httpx
import pytest

from deployments.gateway.schemas import FALLBACK_STATUS
from load_tests.harness.system import System, application
from tests.support.waiting import until

JUNCTION = "300839359"
BODY = {"junctionId": JUNCTION, "observations": [1, 0, 1, 0.4, 0.2]}


def status_of(client: httpx.Client) -> str:
    answer = client.post("/traffic/action", json=BODY)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["status"])


def assert_down(client: httpx.Client) -> None:
    """Expect RED on both routes, degraded health, and a reset that fails."""
    for answer in (client.post("/traffic/action", json=BODY), client.get("/traffic/action")):
        assert answer.status_code == 200
        body = answer.json()
        assert (body["predictedAction"], body["signalState"]) == (0, "RED")
        assert body["status"] == FALLBACK_STATUS
    health = client.get("/traffic/health")
    assert health.status_code == 503
    assert health.json()["status"] == "degraded"
    assert client.post("/traffic/reset").status_code == 503


def test_an_inference_application_that_starts_later_is_found(connect, gateways):
    client = connect("/late/api")
    # The first answer can be too late, and then it is YELLOW.
    until(lambda: client.get("/traffic/action").json()["signalState"] == "RED")
    assert_down(client)
    gateways.deploy(application("late", "/late"))
    until(lambda: status_of(client) == "success")
    gateways.remove("late")
    until(lambda: client.get("/traffic/action").json()["signalState"] == "RED")
    assert_down(client)


@pytest.fixture
def late(gateways: System) -> Iterator[System]:
    """Serve the inference application of the gateway ``late``, for tests that disturb it."""
    gateways.deploy(application("late", "/late"))
    yield gateways
    gateways.remove("late")


def test_a_hanging_inference_replica_leads_to_the_fallback_and_out_of_it(connect, late):
    client = connect("/late/api")
    until(lambda: status_of(client) == "success")
    (replica,) = late.replicas("late")
    replica.suspend()  # for good: after a while it is killed, and Serve starts another one
    started = time.monotonic()
    assert status_of(client) == FALLBACK_STATUS
    assert time.monotonic() - started < 5  # the deadline is 2 s
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: status_of(client), range(8)))  # opens the breaker
    until(lambda: status_of(client) == "success")


def test_clients_that_go_away_take_no_others_answer_with_them(connect, late):
    client = connect("/late/api")
    until(lambda: status_of(client) == "success")
    (replica,) = late.replicas("late")
    replica.suspend()
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        try:
            patient = []
            for _ in range(4):  # interleaved, so that they share calls
                threads.submit(client.post, "/traffic/action", json=BODY, timeout=0.3)
                patient.append(threads.submit(status_of, client))
            with pytest.raises(httpx.ReadTimeout):
                client.post("/traffic/action", json=BODY, timeout=0.5)
        finally:
            replica.resume()
        assert [each.result() for each in patient] == ["success"] * 4
