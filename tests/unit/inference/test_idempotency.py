"""Idempotency keys over HTTP, and the responses of each outcome of a step or a reset.

How the engine keeps receipts is tested in tests/unit/states.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from deployments.http.errors import CODE_HEADER
from deployments.http.messages import KEY_HEADER
from deployments.inference.api import create_app
from deployments.inference.policy_model import NonFiniteStateError
from deployments.stateful.errors import KeyReusedError, OutcomeUnknownError, UnavailableError
from tests.unit.inference.policies import SMALL
from tests.unit.inference.serving import FakeService, client_of

STEP_HEADER = "x-hidden-state-step"
BODY = {"junction_id": SMALL, "obs_data": [0.5]}
KEY = {KEY_HEADER: "k"}
REUSED = {"detail": str(KeyReusedError()), "code": "key_reused"}
UNKNOWN = {"detail": str(OutcomeUnknownError()), "code": "outcome_unknown"}
DEFECT = {"detail": "Internal Server Error", "code": "outcome_unknown"}


async def post(
    client: httpx.AsyncClient, headers: dict[str, str] | None = None, **more: Any
) -> httpx.Response:
    return await client.post("/predict_action", json=BODY | more, headers=headers)


class TestOutcomes:
    """Of a service with set outcomes."""

    @pytest.fixture
    def fake(self) -> FakeService:
        return FakeService()

    @pytest_asyncio.fixture
    async def client(self, fake: FakeService) -> AsyncIterator[httpx.AsyncClient]:
        app = create_app(fake)
        async with client_of(app, raise_app_exceptions=False) as client:
            yield client

    @pytest.mark.parametrize(
        ("outcome", "status", "body", "code", "retry_after"),
        [
            (KeyReusedError(), 422, REUSED, "key_reused", None),
            (OutcomeUnknownError(), 503, UNKNOWN, "outcome_unknown", "1"),
            (RuntimeError("secret"), 500, DEFECT, "outcome_unknown", None),
            (UnavailableError("away"), 503, {"detail": "away"}, "overloaded", "1"),
            (NonFiniteStateError(), 422, {"detail": str(NonFiniteStateError())}, None, None),
        ],
        ids=lambda value: type(value).__name__,
    )
    async def test_the_response_to_one_step_has_status_and_code_of_its_outcome(
        self, client, fake, outcome, status, body, code, retry_after
    ):
        fake.outcomes = [outcome]
        response = await post(client)
        assert (response.status_code, response.json()) == (status, body)
        assert response.headers.get(CODE_HEADER) == code
        assert response.headers.get("retry-after") == retry_after

    @pytest.mark.parametrize(("method", "path"), [("POST", "/reset_hidden"), ("DELETE", "/runs/x")])
    @pytest.mark.parametrize(
        ("error", "code"),
        [(OutcomeUnknownError(), "outcome_unknown"), (UnavailableError("away"), "overloaded")],
    )
    async def test_a_reset_that_fails_is_503_with_the_code_of_its_outcome(
        self, client, fake, method, path, error, code
    ):
        fake.outcomes = [error]
        response = await client.request(method, path)
        assert (response.status_code, response.json()["detail"]) == (503, str(error))
        assert response.headers[CODE_HEADER] == code
        assert response.headers["retry-after"] == "1"


class TestSteps:
    """Of the real service."""

    async def test_an_item_and_a_request_with_one_key_are_one_step(self, client):
        items = [BODY | {"request_id": "k"}] * 2
        answered = await client.post("/predict_actions", json={"items": items})
        alone = await post(client, KEY)
        assert answered.json() == {"items": [alone.json()] * 2}
        assert alone.headers[STEP_HEADER] == "1"
