"""The gateway on a real cluster, by each transport, with the inference up and down."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from deployments.gateway.schemas import FALLBACK_STATUS
from deployments.gateway.users import Users
from deployments.store import open_store
from load_tests.harness.system import System, application
from models.policy.form import SHIPPED_POLICY
from tests.cluster.gateway.conftest import USER, gateway, wait_for

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


class TestOwnInference:
    """The inference application of the same system, at the local front."""

    @pytest.fixture
    def client(self, connect):
        return connect("/api")

    def test_it_is_healthy_and_decides(self, client):
        assert client.get("/traffic/health").json()["inferenceService"] == "up"
        assert status_of(client) == "success"
        assert client.get("/traffic/action").json()["status"] == "success"

    def test_a_run_is_the_same_run_through_the_gateway_and_without(self, client, system, run_id):
        run = {"X-Simulation-Run": run_id}
        obs = {"junction_id": JUNCTION, "obs_data": BODY["observations"]}
        with httpx.Client(base_url=system.url, headers=run, timeout=10) as direct:
            for _ in range(3):
                client.post("/traffic/action", json=BODY, headers=run).raise_for_status()
            step = direct.post("/predict_action", json=obs).headers["x-hidden-state-step"]
            assert step == "4"
            client.post("/traffic/reset", headers=run).raise_for_status()
            step = direct.post("/predict_action", json=obs).headers["x-hidden-state-step"]
            assert step == "1"

    def test_simultaneous_requests_are_one_step_each(self, client, system, run_id):
        run = {"X-Simulation-Run": run_id}

        def act(_: int) -> str:
            answer = client.post("/traffic/action", json=BODY, headers=run)
            return str(answer.json()["status"])

        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            assert set(threads.map(act, range(200))) == {"success"}
        obs = {"junction_id": JUNCTION, "obs_data": BODY["observations"]}
        answer = httpx.post(f"{system.url}/predict_action", json=obs, headers=run, timeout=10)
        assert answer.headers["x-hidden-state-step"] == "201"


class TestDefault:
    @pytest.fixture
    def client(self, connect):
        return connect("/api")

    def test_the_death_of_the_inference_replica_never_shows_as_an_error(self, client, gateways):
        (replica,) = gateways.replicas("inference")
        assert status_of(client) == "success"
        gateways.kill(replica)
        seen = set()

        def back() -> bool:
            seen.add(status_of(client))
            return "success" in seen and len(gateways.replicas("inference")) == 1

        wait_for(lambda: not replica.is_running() and back(), timeout_s=60)
        wait_for(lambda: status_of(client) == "success", timeout_s=60)

    def test_login_attempts_are_counted_across_replicas(self, gateways):
        def login(_: int) -> int:
            body = {"username": "mallory", "password": "guess"}
            # a connection each, so that both replicas are asked
            return httpx.post(f"{gateways.url}/api/auth/login", json=body, timeout=10).status_code

        statuses = [login(n) for n in range(14)]
        assert statuses == [401] * 10 + [429] * 4

    def test_a_new_password_revokes_tokens_on_every_replica_within_seconds(self, gateways):
        carol = {"username": "carol", "password": "first password"}
        base = f"{gateways.url}/api"

        async def change(work: Callable[[Users], Awaitable[None]]) -> None:
            store = open_store(f"sqlite:///{gateways.instance.data_dir}/greenwave.db")
            await work(Users(store))
            await store.close()

        def log_in() -> dict[str, str]:
            answer = httpx.post(f"{base}/auth/login", json=carol, timeout=10).raise_for_status()
            return {"Authorization": f"Bearer {answer.json()['accessToken']}"}

        def statuses(token: dict[str, str]) -> set[int]:
            # a connection each, so that both replicas are asked
            return {
                httpx.get(f"{base}/traffic/action", headers=token, timeout=10).status_code
                for _ in range(8)
            }

        asyncio.run(change(lambda users: users.add(carol["username"], carol["password"])))
        token = log_in()
        assert statuses(token) == {200}
        carol["password"] = "second password"
        asyncio.run(change(lambda users: users.set_password("carol", carol["password"])))
        wait_for(lambda: statuses(token) == {401}, timeout_s=10)
        assert statuses(log_in()) == {200}

    def test_the_metrics_tell_of_decisions_and_logins(self, client, gateways):
        status_of(client)
        url = f"http://127.0.0.1:{gateways.instance.ports.metrics}/metrics"

        def published() -> bool:
            text = httpx.get(url, timeout=10).text
            names = ("actions_total", "logins_total", "breaker_state", "inference_latency_ms_count")
            return all(f"ray_gateway_{name}{{" in text for name in names)

        wait_for(published)


def test_an_inference_application_that_starts_later_is_found(connect, gateways):
    client = connect("/late/api")
    assert_down(client)
    gateways.deploy(application("late", "/late"))
    wait_for(lambda: status_of(client) == "success")
    gateways.remove("late")
    wait_for(lambda: status_of(client) == FALLBACK_STATUS)
    assert_down(client)


@pytest.fixture
def late(gateways: System) -> Iterator[System]:
    """Serve the inference application of the gateway ``late``, for tests that disturb it."""
    gateways.deploy(application("late", "/late"))
    yield gateways
    gateways.remove("late")


def test_a_hanging_inference_replica_leads_to_the_fallback_and_out_of_it(connect, late):
    client = connect("/late/api")
    wait_for(lambda: status_of(client) == "success")
    (replica,) = late.replicas("late")
    replica.suspend()  # for good: after a while it is killed, and Serve starts another one
    started = time.monotonic()
    assert status_of(client) == FALLBACK_STATUS
    assert time.monotonic() - started < 5  # the deadline is 2 s
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: status_of(client), range(8)))  # opens the breaker
    wait_for(lambda: status_of(client) == "success", timeout_s=60)


def test_clients_that_go_away_take_no_others_answer_with_them(connect, late):
    client = connect("/late/api")
    wait_for(lambda: status_of(client) == "success")
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


class TestOverHttp:
    @pytest.fixture
    def client(self, connect, fake):
        fake.status, fake.body, fake.hanging = 200, {"action": 1, "status": "healthy"}, False
        client = connect("/http/api")
        wait_for(lambda: status_of(client) == "success")
        return client

    def test_it_forwards_run_and_request_id(self, client, fake):
        headers = {"X-Simulation-Run": "run-7", "x-request-id": "abc"}
        client.post("/traffic/action", json=BODY, headers=headers).raise_for_status()
        path, sent = fake.requests[-1]
        assert path == "/predict_action"
        assert (sent["x-simulation-run"], sent["x-request-id"]) == ("run-7", "abc")

    @pytest.mark.parametrize(
        ("status", "detail"), [(500, "broken"), (503, "Model not loaded"), (404, "Not Found")]
    )
    def test_errors_lead_to_the_fallback_and_recovery_out_of_it(self, client, fake, status, detail):
        fake.status, fake.body = status, {"detail": detail}
        assert_down(client)
        fake.status, fake.body = 200, {"action": 2}
        wait_for(lambda: status_of(client) == "success")

    def test_a_hanging_service_soon_costs_next_to_nothing(self, client, fake):
        fake.hanging = True
        started = time.monotonic()
        assert status_of(client) == FALLBACK_STATUS
        assert 0.4 < time.monotonic() - started < 3
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: status_of(client), range(8)))  # opens the breaker
        asked = len(fake.requests)
        for _ in range(20):
            assert status_of(client) == FALLBACK_STATUS
        assert len(fake.requests) - asked <= 5  # probes, not every request
        fake.hanging = False
        wait_for(lambda: status_of(client) == "success")


def test_a_short_secret_is_refused_at_the_start(gateways):
    broken = gateway("broken", "/broken/api", env={"JWT_SECRET": "short"})
    with pytest.raises(Exception, match="JWT_SECRET has 5 bytes"):
        gateways.deploy(broken)
    gateways.remove("broken")


def test_the_configured_user_is_the_only_way_in(gateways):
    answer = httpx.post(
        f"{gateways.url}/api/auth/login", json=USER | {"password": "no"}, timeout=10
    )
    assert answer.status_code == 401


class TestFallbackByPlanBehindTheSafetyLayer:
    """A gateway without an inference service."""

    @pytest.fixture
    def client(self, connect):
        return connect("/safe/api")

    def test_the_town_goes_on_by_the_plan_of_the_clients_clock(self, client):
        shown = {"phase": 0, "greenSeconds": 30, "redSeconds": [0, 30]}
        body = BODY | {"shown": shown}
        answers = [
            client.post("/traffic/action", json=body | {"simulationTime": second}).json()
            for second in range(27000, 27200, 5)
        ]
        assert {each["status"] for each in answers} == {FALLBACK_STATUS}
        (plan,) = {each["fallbackPlan"] for each in answers}
        assert plan.endswith(" 07:00")
        assert {each["predictedAction"] for each in answers} == {0, 1}
        for each in answers:
            changes = each["predictedAction"] != shown["phase"]
            assert (each["safety"]["showAfterSeconds"] >= 3) == changes
            assert (each["safety"]["steps"] != []) == changes

    def test_a_short_green_is_kept_whatever_is_asked_for(self, client):
        shown = {"phase": 1, "greenSeconds": 1, "redSeconds": [1, 0]}
        for second in range(27000, 27200, 5):
            body = BODY | {"shown": shown, "simulationTime": second}
            answer = client.post("/traffic/action", json=body).json()
            assert answer["predictedAction"] == 1
            kept = answer["safety"]["asked"] != 1
            assert answer["safety"]["rule"] == ("minimum_green" if kept else "none")

    def test_who_does_not_say_what_is_shown_is_told_to(self, client):
        answer = client.post("/traffic/action", json=BODY)
        assert answer.status_code == 400
        assert "shown is required" in answer.text


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
