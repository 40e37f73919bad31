"""Requests that say which they are, and answers that say what became of them.

What remembers a step is tested beside the stepper; this is what HTTP makes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio

from deployments.inference.api import create_app
from deployments.inference.options import InferenceOptions
from deployments.inference.service import Decision, InferenceService
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    CheckoutTimeoutError,
    KeyReusedError,
    OutcomeUnknownError,
)
from deployments.stateful.replica.engine import StatefulEngine
from tests.unit.inference.policies import BIG, SMALL

STEP_HEADER = "x-hidden-state-step"
BODY = {"junction_id": SMALL, "obs_data": [0.5]}
NOT_A_KEY = "An idempotency key is 1 to 64 characters of A-Z a-z 0-9 . _ : -"
REUSED = {"detail": str(KeyReusedError()), "code": "key_reused"}
UNKNOWN = {"detail": str(OutcomeUnknownError()), "code": "outcome_unknown"}
DEFECT = {"detail": "Internal Server Error", "code": "outcome_unknown"}
LEGAL = ["a", "A-Z_0.9:x", "x" * 64]
ILLEGAL = ["", "x" * 65, "a b", "ä", "a/b"]


class FakeService(InferenceService):
    """Notes the keys of the steps that it is asked for, and answers as the test says."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.outcomes: list[Decision | Exception] = []

    def predict(self, *args: Any, request_id: str | None = None, **options: Any) -> Any:
        self.keys.append(request_id)
        step: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        outcome = self.outcomes.pop(0) if self.outcomes else Decision(1, 0.5, 7)
        if isinstance(outcome, Exception):
            step.set_exception(outcome)
        else:
            step.set_result(outcome)
        return step


@pytest.fixture
def fake() -> FakeService:
    return FakeService()


@pytest_asyncio.fixture
async def client(fake: FakeService) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(
        create_app(fake, InferenceOptions()), raise_app_exceptions=False
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://inference") as client:
        yield client


class TestOneStep:
    @pytest.mark.parametrize("key", LEGAL)
    async def test_its_key_is_in_the_header(self, client, fake, key):
        answer = await client.post("/predict_action", json=BODY, headers={"idempotency-key": key})
        assert answer.status_code == 200
        assert fake.keys == [key]

    async def test_it_needs_no_key(self, client, fake):
        assert (await client.post("/predict_action", json=BODY)).status_code == 200
        assert fake.keys == [None]

    @pytest.mark.parametrize("key", ILLEGAL)
    async def test_a_key_of_another_form_is_400_and_asks_for_no_step(self, client, fake, key):
        headers = [(b"Idempotency-Key", key.encode("latin-1"))]
        answer = await client.post("/predict_action", json=BODY, headers=headers)
        assert answer.status_code == 400
        assert answer.json() == {"detail": NOT_A_KEY}
        assert fake.keys == []

    async def test_a_key_of_another_observation_is_422_with_a_code(self, client, fake):
        fake.outcomes = [KeyReusedError()]
        answer = await client.post("/predict_action", json=BODY)
        assert (answer.status_code, answer.json()) == (422, REUSED)
        assert answer.headers["x-error-code"] == "key_reused"

    async def test_an_unknown_outcome_is_503_with_a_code(self, client, fake):
        fake.outcomes = [OutcomeUnknownError()]
        answer = await client.post("/predict_action", json=BODY)
        assert (answer.status_code, answer.json()) == (503, UNKNOWN)
        assert answer.headers["x-error-code"] == "outcome_unknown"
        assert answer.headers["retry-after"] == "1"

    async def test_a_defect_is_500_and_says_that_the_outcome_is_unknown(self, client, fake):
        fake.outcomes = [RuntimeError("secret")]
        answer = await client.post("/predict_action", json=BODY)
        assert (answer.status_code, answer.json()) == (500, DEFECT)
        assert answer.headers["x-error-code"] == "outcome_unknown"
        assert "retry-after" not in answer.headers

    async def test_no_other_refusal_has_a_code_in_its_body(self, client, fake):
        fake.outcomes = [CheckoutTimeoutError()]
        answer = await client.post("/predict_action", json=BODY)
        assert (answer.status_code, answer.json()) == (503, {"detail": str(CheckoutTimeoutError())})
        assert answer.headers["x-error-code"] == "overloaded"


class TestSeveralSteps:
    async def test_each_has_its_own_key_or_none(self, client, fake):
        items = [BODY | {"request_id": key} for key in LEGAL] + [BODY, BODY | {"request_id": None}]
        await client.post("/predict_actions", json={"items": items})
        assert fake.keys == [*LEGAL, None, None]

    @pytest.mark.parametrize("key", ILLEGAL)
    async def test_a_key_of_another_form_is_400_of_its_item_alone(self, client, fake, key):
        items = [BODY | {"request_id": key}, BODY | {"request_id": "good"}]
        answer = await client.post("/predict_actions", json={"items": items})
        assert answer.status_code == 200
        assert answer.json()["items"] == [
            {"junction_id": SMALL, "error": {"status": 400, "detail": NOT_A_KEY}},
            {"junction_id": SMALL, "action": 1, "confidence": 0.5},
        ]
        assert fake.keys == ["good"]

    async def test_a_key_that_is_no_text_is_422_of_its_item_alone(self, client, fake):
        items = [BODY | {"request_id": 5}, BODY]
        answered = (await client.post("/predict_actions", json={"items": items})).json()["items"]
        assert [item.get("error", {}).get("status") for item in answered] == [422, None]
        assert answered[0]["error"]["detail"].startswith("request_id: ")

    async def test_each_tells_its_own_outcome(self, client, fake):
        fake.outcomes = [
            KeyReusedError(),
            OutcomeUnknownError(),
            RuntimeError("secret"),
            Decision(2, 0.5, 8),
        ]
        answer = await client.post("/predict_actions", json={"items": [BODY] * 4})
        assert answer.status_code == 200
        *failed, good = answer.json()["items"]
        assert [item["error"] for item in failed] == [
            {"status": 422, **REUSED},
            {"status": 503, **UNKNOWN},
            {"status": 500, **DEFECT},
        ]
        assert good["action"] == 2


class TestReset:
    """Of the leases' errors, none tells that every part of the run is as it was."""

    @pytest.mark.parametrize(
        "error", [OutcomeUnknownError(), AuthorityUnavailableError("gone"), TimeoutError()]
    )
    async def test_one_that_is_not_confirmed_is_503_with_a_code(self, error):
        class Leases:
            async def reset(self, run: str) -> None:
                raise error

        service = InferenceService(cast(StatefulEngine, Leases()), InferenceOptions())
        transport = httpx.ASGITransport(create_app(service, InferenceOptions()))
        async with httpx.AsyncClient(transport=transport, base_url="http://inference") as client:
            answer = await client.post("/reset_hidden")
        assert (answer.status_code, answer.json()) == (503, UNKNOWN)
        assert answer.headers["x-error-code"] == "outcome_unknown"
        assert answer.headers["retry-after"] == "1"


class TestWithTheStepper:
    """The whole way, with the real service behind the routes."""

    @pytest_asyncio.fixture
    async def client(self, service: InferenceService) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(create_app(service, InferenceOptions()))
        async with httpx.AsyncClient(transport=transport, base_url="http://inference") as client:
            yield client

    async def test_a_repeated_request_gets_the_first_answer_and_makes_no_step(self, client):
        key = {"Idempotency-Key": "k"}
        first = await client.post("/predict_action", json=BODY, headers=key)
        await client.post("/predict_action", json=BODY)
        again = await client.post("/predict_action", json=BODY, headers=key)
        assert (again.content, again.headers) == (first.content, first.headers)
        assert (await client.post("/predict_action", json=BODY)).headers[STEP_HEADER] == "3"

    async def test_requests_at_once_with_one_key_are_one_step(self, client):
        key = {"Idempotency-Key": "k"}
        answers = await asyncio.gather(
            *(client.post("/predict_action", json=BODY, headers=key) for _ in range(8))
        )
        assert {answer.headers[STEP_HEADER] for answer in answers} == {"1"}

    async def test_another_observation_is_422_and_makes_no_step(self, client):
        key, other = {"Idempotency-Key": "k"}, BODY | {"obs_data": [0.25]}
        await client.post("/predict_action", json=BODY, headers=key)
        answer = await client.post("/predict_action", json=other, headers=key)
        assert (answer.status_code, answer.json()) == (422, REUSED)
        assert (await client.post("/predict_action", json=BODY)).headers[STEP_HEADER] == "2"

    async def test_an_item_and_a_request_with_one_key_are_one_step(self, client):
        items = [BODY | {"request_id": "k"}] * 2
        answered = (await client.post("/predict_actions", json={"items": items})).json()["items"]
        alone = await client.post("/predict_action", json=BODY, headers={"Idempotency-Key": "k"})
        assert answered == [alone.json()] * 2
        assert alone.headers[STEP_HEADER] == "1"

    async def test_a_key_belongs_to_one_junction_of_one_run(self, client):
        key = {"Idempotency-Key": "k"}
        for body in (BODY, BODY | {"run_id": "other"}, BODY | {"junction_id": BIG}):
            other = body | {"obs_data": [0.25]}
            assert (await client.post("/predict_action", json=body)).status_code == 200
            answer = await client.post("/predict_action", json=other, headers=key)
            assert answer.headers[STEP_HEADER] == "2"
