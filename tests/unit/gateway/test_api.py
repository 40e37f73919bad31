"""Every route of the gateway: answers, errors, and their one form."""

import asyncio
import time
from collections import Counter

import httpx
import pytest

from deployments.gateway.errors import BadRequestError, InferenceUnavailableError
from deployments.gateway.inference_calls.batcher import Step
from deployments.gateway.schemas import FALLBACK_STATUS
from deployments.http.messages import is_name
from deployments.store import StoreUnavailable
from models.networks.shipped import JUNCTIONS
from tests.unit.gateway.conftest import LIMITS, PASSWORD

ACTION = "/traffic/action"
BODY = {"junctionId": "300839359", "observations": [1, 0, 1, 0.5], "metadata": "test"}
DOWN = InferenceUnavailableError("unreachable", "nobody listens at 10.0.0.1")


def assert_error(answer: httpx.Response, status: int, message: str) -> None:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body == {"status": "error", "message": message, "timestamp": body["timestamp"]}
    assert_now(body["timestamp"])
    assert (answer.headers.get("www-authenticate") == "Bearer") == (status == 401)


def assert_now(timestamp: object) -> None:
    """Assert that a time in milliseconds is of this second, and not to come."""
    assert type(timestamp) is int
    assert 0 <= time.time() * 1000 - timestamp < 1000


class TestLogin:
    async def test_right_credentials_give_a_token_that_opens_the_gateway(self, login, client):
        answer = await login()
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        body = answer.json()
        token = body.pop("accessToken")
        assert_now(body.pop("timestamp"))
        assert body == {"tokenType": "Bearer", "expiresIn": 3600}
        headers = {"Authorization": f"Bearer {token}"}
        assert (await client.post(ACTION, json=BODY, headers=headers)).status_code == 200

    @pytest.mark.parametrize("credentials", [("ann", "wrong"), ("nobody", PASSWORD), ("Ann", "x")])
    async def test_wrong_credentials(self, login, credentials):
        assert_error(await login(*credentials), 401, "Invalid username or password")

    @pytest.mark.parametrize(
        "body",
        [{}, [], {"username": "ann"}, {"username": " ", "password": "x"}, {"password": "x"}]
        + [{"username": "ann", "password": bad} for bad in (" \t", None, 7)],
    )
    async def test_blank_credentials(self, client, body):
        answer = await client.post("/auth/login", json=body)
        assert_error(answer, 400, "Username and password are required")
        answer = await client.post("/auth/login", content=b'{"username": ')
        assert_error(answer, 400, "Malformed JSON request body")

    async def test_a_user_name_has_a_few_attempts_whatever_the_address(self, login):
        for number in range(LIMITS.per_user):
            answer = await login(password="wrong", address=f"10.0.0.{number}")
            assert answer.status_code == 401
        answer = await login(address="10.0.0.99")
        assert_error(answer, 429, "Too many login attempts; try again later")
        assert answer.headers["retry-after"] == "60"

    async def test_an_address_has_a_few_attempts_whatever_the_user_name(self, login):
        address = "6.6.6.6, 10.0.0.1"
        for number in range(LIMITS.per_address):
            assert (await login(f"user-{number}", address=address)).status_code == 401
        assert (await login(address=address)).status_code == 429
        assert (await login(address="10.0.0.2")).status_code == 200

    async def test_without_the_store_nobody_is_let_in(self, login, store, monkeypatch):
        async def fail(counter, lifetime_s):
            raise StoreUnavailable("sqlite: /secret/path is locked")

        monkeypatch.setattr(store, "increment", fail)
        answer = await login()
        assert_error(answer, 503, "Logins are not possible at the moment")
        assert answer.headers["retry-after"] == "1"

    async def test_simultaneous_guesses_are_all_counted(self, login):
        answers = await asyncio.gather(*(login(password=f"guess {n}") for n in range(6)))
        statuses = Counter(answer.status_code for answer in answers)
        assert statuses == {401: LIMITS.per_user, 429: 6 - LIMITS.per_user}


PROTECTED = [("GET", ACTION), ("POST", ACTION), ("POST", "/traffic/reset")]
NAMES = [
    *((name, bad) for name in ("X-Simulation-Run", "Idempotency-Key") for bad in ("", "a b")),
    ("X-Simulation-Run", "\xe9"),
    ("Idempotency-Key", "x" * 65),
]


@pytest.mark.parametrize(("method", "path"), PROTECTED)
class TestProtected:
    async def test_without_a_valid_token_the_body_is_not_looked_at(
        self, client, method, path, inference
    ):
        answer = await client.request(method, path, content=b"{" * 100_000)
        assert_error(answer, 401, "A bearer token is required")
        answer = await client.request(method, path, headers={"Authorization": "Bearer x.y.z"})
        assert_error(answer, 401, "The token is invalid")
        assert (inference.steps, inference.resets) == ([], [])

    @pytest.mark.parametrize(("name", "value"), NAMES)
    async def test_an_invalid_name_is_refused(
        self, client, bearer, inference, method, path, name, value
    ):
        headers = [(k.encode(), v.encode("latin-1")) for k, v in (bearer | {name: value}).items()]
        body = BODY if method == "POST" and path == ACTION else None
        answer = await client.request(method, path, json=body, headers=headers)
        what = "A run id" if name == "X-Simulation-Run" else "An idempotency key"
        assert_error(answer, 400, f"{what} is 1 to 64 characters of A-Z a-z 0-9 . _ : -")
        assert (inference.steps, inference.resets) == ([], [])


@pytest.mark.parametrize(
    ("scopes", "method", "path", "status"),
    [
        (["act"], "POST", ACTION, 200),
        (["act"], "GET", ACTION, 200),
        (["act"], "POST", "/traffic/reset", 403),
        (["reset"], "POST", "/traffic/reset", 200),
        (["reset"], "POST", ACTION, 403),
        (["read"], "GET", ACTION, 403),
        (["read"], "POST", "/traffic/reset", 403),
    ],
)
async def test_a_token_opens_what_its_scopes_say_and_nothing_else_is_done(
    client, tokens, inference, scopes, method, path, status
):
    headers = {"Authorization": f"Bearer {tokens.issue('ann', scopes)}"}
    body = BODY if path == ACTION else None
    answer = await client.request(method, path, json=body, headers=headers)
    assert answer.status_code == status
    if status == 403:
        missing = "reset" if path.endswith("reset") else "act"
        body = answer.json()
        assert body["message"] == f"The token does not have the scope '{missing}'"
        assert set(body) == {"status", "message", "timestamp"}
        challenge = f'Bearer error="insufficient_scope", scope="{missing}"'
        assert answer.headers["www-authenticate"] == challenge
        assert (inference.steps, inference.resets) == ([], [])


class TestAction:
    @pytest.fixture
    def act(self, client, bearer):
        def act(body=BODY, **headers):
            return client.post(ACTION, json=body, headers=bearer | headers)

        return act

    @pytest.mark.parametrize(
        ("action", "signal"), [(0, "RED"), (1, "YELLOW"), (2, "GREEN"), (3, "GREEN")]
    )
    async def test_the_action_becomes_a_signal(self, act, inference, action, signal):
        inference.action = action
        body = (await act()).json()
        assert list(body) == ["junctionId", "predictedAction", "signalState", "timestamp", "status"]
        assert_now(body.pop("timestamp"))
        assert body == {
            "junctionId": "300839359",
            "predictedAction": action,
            "signalState": signal,
            "status": "success",
        }

    async def test_observations_run_and_request_id_are_forwarded(self, act, inference):
        await act(**{"X-Simulation-Run": "run-7", "x-request-id": "abc"})
        (step,) = inference.steps
        expected = Step("run-7", "300839359", [1.0, 0.0, 1.0, 0.5], "", "abc")
        assert step._replace(key="") == expected
        await act(**{"x-request-id": "not sane"})
        assert (inference.steps[1].run, inference.steps[1].request_id) == (None, None)

    async def test_every_prediction_has_its_clients_key_or_a_fresh_one(self, act, inference):
        for _ in range(20):
            await act()
        keys = [step.key for step in inference.steps]
        assert len(set(keys)) == 20
        assert all(map(is_name, keys))
        await act(**{"Idempotency-Key": "my-key:1"})
        assert inference.steps[-1].key == "my-key:1"

    @pytest.mark.parametrize(
        ("error", "status", "message"),
        [
            (BadRequestError("used with another key", 422), 422, "used with another key"),
            (BadRequestError("obs_data is so large ..."), 400, "obs_data is so large ..."),
            (KeyError("secret detail"), 500, "Internal server error"),
        ],
    )
    async def test_an_error_of_the_inference_service_has_its_status(
        self, act, inference, error, status, message
    ):
        inference.error = error
        assert_error(await act(), status, message)

    async def test_a_dead_inference_service_means_red_is_soon_left_alone_and_logged(
        self, act, inference, service, caplog
    ):
        inference.error = DOWN
        for _ in range(20):
            body = (await act()).json()
            assert_now(body.pop("timestamp"))
            assert body == {
                "junctionId": "300839359",
                "predictedAction": 0,
                "signalState": "RED",
                "status": FALLBACK_STATUS,
            }
        assert len(inference.steps) == 5 * 2  # each is tried twice, and fails once
        assert +service.counts.fallbacks == {"unreachable": 5, "breaker_open": 15}
        logged = [line for line in caplog.messages if line.startswith("Answered")]
        assert set(logged) == {
            f"Answered without the policy: {cause}" for cause in (DOWN, "breaker_open")
        }


class TestDemo:
    async def test_every_junction_comes_with_observations_of_its_own_size(
        self, client, bearer, inference
    ):
        for _ in range(100):
            answer = await client.get(ACTION, headers=bearer)
            assert answer.json()["junctionId"] == inference.steps[-1].junction_id
        assert {step.junction_id for step in inference.steps} == set(JUNCTIONS)
        assert all(len(s.obs) == JUNCTIONS[s.junction_id].obs_size for s in inference.steps)

    async def test_a_demonstration_that_is_repeated_with_its_key_is_the_same_step(
        self, client, bearer, inference
    ):
        for n in range(40):
            for _ in range(2):
                await client.get(ACTION, headers=bearer | {"Idempotency-Key": f"key-{n // 2}"})
        steps = [step._replace(trace=None) for step in inference.steps]
        assert all(steps[n : n + 4] == [steps[n]] * 4 for n in range(0, 80, 4))
        assert {step.key for step in steps} == {f"key-{n}" for n in range(20)}
        assert len({step.junction_id for step in steps}) == 5


class TestReset:
    async def test_the_run_is_reset(self, client, bearer, inference):
        headers = bearer | {"X-Simulation-Run": "run-7", "x-request-id": "abc"}
        headers |= {"Idempotency-Key": "key-1"}
        answer = await client.post("/traffic/reset", headers=headers)
        assert answer.status_code == 200
        assert answer.json() == {"status": "ok", "message": "Hidden states reset for all junctions"}
        assert inference.resets == [("run-7", "key-1", "abc")]
        for _ in range(2):
            await client.post("/traffic/reset", headers=bearer)
        assert len({key for _, key, _ in inference.resets}) == 3

    @pytest.mark.parametrize("body", [b"", b" ", b"{ }", b"null"])
    async def test_an_empty_body_resets_the_default_run(self, client, bearer, inference, body):
        answer = await client.post("/traffic/reset", headers=bearer, content=body)
        assert answer.status_code == 200
        assert [run for run, _, _ in inference.resets] == [None]

    @pytest.mark.parametrize(
        ("query", "body"), [("?run_id=monday", b""), ("", b'{"run_id": "monday"}'), ("", b"monday")]
    )
    async def test_a_run_that_is_named_elsewhere_resets_nothing(
        self, client, bearer, inference, query, body
    ):
        answer = await client.post(f"/traffic/reset{query}", headers=bearer, content=body)
        says = "A reset takes no query and no body. Name the run in the header X-Simulation-Run"
        assert_error(answer, 400, says)
        assert not inference.resets

    async def test_a_run_in_the_query_of_a_step_is_refused(self, client, bearer, inference):
        for method in ("GET", "POST"):
            answer = await client.request(method, "/traffic/action?run-id=monday", headers=bearer)
            assert answer.status_code == 400
            assert answer.json()["message"].startswith("run-id is not read here.")
        assert not inference.steps

    async def test_without_inference(self, client, bearer, inference):
        inference.error = DOWN
        answer = await client.post("/traffic/reset", headers=bearer)
        assert_error(answer, 503, "The inference service did not confirm the reset")


class TestHealth:
    @pytest.mark.parametrize(
        ("status", "error"), [("no_model", None), ("unhealthy", None), ("healthy", DOWN)]
    )
    async def test_it_is_that_of_the_inference_service(self, client, inference, status, error):
        answer = await client.get("/traffic/health")
        assert answer.status_code == 200
        assert answer.json().items() >= {"status": "healthy", "inferenceService": "up"}.items()
        inference.status, inference.error = status, error
        answer = await client.get("/traffic/health")
        assert answer.status_code == 503
        body = answer.json()
        assert_now(body.pop("timestamp"))
        assert body == {"status": "degraded", "inferenceService": "down"}
