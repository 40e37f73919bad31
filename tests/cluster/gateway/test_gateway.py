"""The gateway on a real cluster, while its inference service hangs."""

import concurrent.futures
import time
from collections.abc import Iterator

import httpx
import pytest

from deployments.gateway.schemas import FALLBACK_STATUS
from load_tests.harness.system import System
from tests.cluster.gateway.conftest import USER
from tests.support.waiting import until

JUNCTION = "300839359"
BODY = {"junctionId": JUNCTION, "observations": [1, 0, 1, 0.4, 0.2]}


@pytest.fixture
def client(late: System) -> Iterator[httpx.Client]:
    """Connect to the gateway with a token, once it reaches the inference service."""
    with httpx.Client(base_url=f"{late.url}/late/api", timeout=10) as client:
        token = client.post("/auth/login", json=USER).raise_for_status().json()["accessToken"]
        client.headers["Authorization"] = f"Bearer {token}"
        until(lambda: status_of(client) == "success")
        yield client


def status_of(client: httpx.Client) -> str:
    answer = client.post("/traffic/action", json=BODY)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["status"])


def test_a_hanging_inference_replica_leads_to_the_fallback_and_out_of_it(client, late):
    (replica,) = late.replicas("late")
    replica.suspend()  # for good: after a while it is killed, and Serve starts another one
    started = time.monotonic()
    assert status_of(client) == FALLBACK_STATUS
    assert time.monotonic() - started < 5  # the deadline is 2 s
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: status_of(client), range(8)))  # opens the breaker
    until(lambda: status_of(client) == "success")


def test_clients_that_go_away_take_no_others_answer_with_them(client, late):
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
