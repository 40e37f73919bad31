"""Codes of errors are documented for their statuses."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.inference.api import create_app
from deployments.inference.policy_model import NonFiniteStateError
from deployments.stateful.errors import (
    KeyReusedError,
    OutcomeUnknownError,
    TooManyStatesError,
    UnavailableError,
)
from tests.unit.inference.serving import STEP, FakeService, Outcome, client_of

OUTCOMES: list[Outcome] = [
    STEP,
    KeyReusedError(),
    NonFiniteStateError(),
    UnavailableError("away"),
    OutcomeUnknownError(),
    TooManyStatesError(100_000, 300),
    RuntimeError("a defect"),
]


def make_app(outcome: Outcome) -> Any:
    return create_app(FakeService(outcome))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
async def test_a_code_in_a_body_is_documented_for_its_status(outcome):
    """Check the code itself: a looser schema beside it in the document would let it pass."""
    async with client_of(make_app(outcome), raise_app_exceptions=False) as client:
        document = (await client.get("/openapi.json")).json()
        body = {"junction_id": "300839359", "obs_data": []}
        response = await client.post("/predict_action", json=body)
    operation = document["paths"]["/predict_action"]["post"]
    documented = operation["responses"][str(response.status_code)]
    if "x-error-code" in response.headers:
        codes = documented["headers"]["X-Error-Code"]["schema"]["enum"]
        assert response.headers["x-error-code"] in codes
    if "code" in response.json():
        forms = document["components"]["schemas"]
        schema = documented["content"]["application/json"]["schema"]
        names = [each["$ref"].rpartition("/")[2] for each in schema.get("anyOf", [schema])]
        constants = [forms[name]["properties"].get("code", {}).get("const") for name in names]
        assert response.json()["code"] in constants
