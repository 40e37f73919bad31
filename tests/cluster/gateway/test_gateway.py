"""The gateway on a real cluster, by each transport, with the inference up and down."""

import concurrent.futures
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deployments.gateway.schemas import FALLBACK_STATUS
from load_tests.harness.system import System, application
from models.policy.form import SHIPPED_POLICY
from tests.cluster.gateway.conftest import gateway
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


def test_an_inference_application_without_a_model_leads_to_the_fallback(connect, gateways):
    gateways.deploy(application("late", "/late", env={"MAPPO_AGENT_PATH": "/nowhere/agent.th"}))
    try:
        client = connect("/late/api")
        health = httpx.get(f"{gateways.url}/late/health", timeout=10).json()
        assert health["status"] == "no_model"
        answer = client.post("/traffic/action", json=BODY)
        assert (answer.status_code, answer.json()["status"]) == (200, FALLBACK_STATUS)
        assert client.get("/traffic/health").status_code == 503
        assert client.post("/traffic/reset").status_code == 200  # zeros need no model
    finally:
        gateways.remove("late")


@pytest.fixture(scope="class")
def crossings(gateways: System) -> Iterator[System]:
    network = "models/networks/greenwave/greenwave-crossings.json"
    gateways.deploy(
        application(
            "inference-crossings",
            "/crossings",
            network=network,
            agent_path=str(SHIPPED_POLICY),
        ),
        gateway(
            "gateway-crossings",
            "/crossings/api",
            network=network,
            inference_app="inference-crossings",
            safety=True,
            safety_max_pedestrian_wait_s=90,
        ),
    )
    yield gateways
    gateways.remove("inference-crossings", "gateway-crossings")


class TestPedestrianCrossings:
    """The shipped network with crossings, and the shipped policy behind the safety layer."""

    STATION = "265580972"
    WALKS = frozenset(range(9, 15))  # places of its crossings in the lamps' states

    @pytest.fixture
    def ask(self, crossings, connect):
        client = connect("/crossings/api")

        def ask(phase: int, green_s: float, red_s: float) -> dict[str, Any]:
            """Ask while only the main road, which phase 0 serves, has queues."""
            shown = {"phase": phase, "greenSeconds": green_s, "redSeconds": [red_s, red_s]}
            shown["redSeconds"][phase] = 0  # type: ignore[index]
            observations = [phase == 0, phase == 1, 1, 0.9, 0.9, 0.9, 0.9, 0.0]
            body = {"junctionId": self.STATION, "observations": [*map(float, observations)]}
            answer = client.post("/traffic/action", json=body | {"shown": shown}).json()
            assert answer["status"] == "success"
            assert answer["safety"]["asked"] == 0
            made: dict[str, Any] = answer
            return made

        return ask

    def test_a_walk_is_finished_and_cleared_before_the_main_road_gets_green(self, ask):
        walks_on = ask(phase=1, green_s=6, red_s=10)
        assert walks_on["predictedAction"] == 1
        assert walks_on["safety"]["rule"] == "minimum_green"
        changes = ask(phase=1, green_s=7, red_s=11)
        assert changes["predictedAction"] == 0
        *clearing, green = changes["safety"]["steps"]
        for step in clearing:
            assert not {step["state"][place] for place in self.WALKS} & {"G", "g"}
        assert green["afterSeconds"] == changes["safety"]["showAfterSeconds"] >= 6

    def test_pedestrians_of_the_other_phase_wait_no_longer_than_their_own_limit(self, ask):
        assert ask(phase=0, green_s=60, red_s=63)["safety"]["rule"] == "none"
        served = ask(phase=0, green_s=80, red_s=83)
        assert (served["predictedAction"], served["safety"]["rule"]) == (1, "maximum_red")
