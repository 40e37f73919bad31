"""Requests made from the OpenAPI document, valid and broken: no answer that it does not tell of."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from deployments.inference.api import create_app
from deployments.inference.errors import TooManyValuesError, UnknownJunctionError
from deployments.inference.options import InferenceOptions
from deployments.inference.service import InferenceService
from deployments.stateful.protocol import (
    CheckoutTimeoutError,
    KeyReusedError,
    NonFiniteStateError,
    OutcomeUnknownError,
    TooManyStatesError,
)
from deployments.stateful.replica.batcher import Decision
from models.junctions import JUNCTIONS, MAX_OBS, SHIPPED

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OUTCOMES: list[Exception | None] = [
    None,
    KeyReusedError(),
    NonFiniteStateError(),
    CheckoutTimeoutError(),
    OutcomeUnknownError(),
    TooManyStatesError(100_000, 300),
    RuntimeError("a defect"),
]


class FakeService(InferenceService):
    """Refuses what it should, and answers everything else with one outcome."""

    def __init__(self, outcome: Exception | None) -> None:
        self.network = SHIPPED
        primary = SimpleNamespace(slot=SimpleNamespace(model=None))
        policies = SimpleNamespace(loaded=True, problem=None, lacks_places=False, primary=primary)
        self.policies = policies  # type: ignore[assignment]
        self.leases = SimpleNamespace(connected=True, reset=self._answer)  # type: ignore[assignment]
        self._outcome = outcome

    def predict(self, run: str, junction_id: str, obs: list[float], **options: Any) -> Any:
        if junction_id not in JUNCTIONS:
            raise UnknownJunctionError(junction_id)
        if len(obs) > MAX_OBS:
            raise TooManyValuesError(len(obs))
        return asyncio.ensure_future(self._answer(run))

    async def _answer(self, run: str) -> Decision:
        if self._outcome is not None:
            raise self._outcome
        return Decision(1, 0.5, 7)


def make_app(outcome: Exception | None) -> Any:
    return create_app(FakeService(outcome), InferenceOptions())


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_every_answer_is_documented(outcome):
    document = schemathesis.openapi.from_asgi("/openapi.json", make_app(outcome))
    for operation in (document[path][method] for path in document for method in document[path]):

        @settings(
            max_examples=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        )
        @given(case=operation.as_strategy())
        def answers_as_documented(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        answers_as_documented()


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
async def test_a_code_in_a_body_is_documented_for_its_status(outcome):
    """Check what a looser form beside it in the document would let pass."""
    transport = httpx.ASGITransport(make_app(outcome), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://inference") as client:
        document = (await client.get("/openapi.json")).json()
        body = {"junction_id": "300839359", "obs_data": []}
        answer = await client.post("/predict_action", json=body)
    operation = document["paths"]["/predict_action"]["post"]
    told = operation["responses"][str(answer.status_code)]
    if "x-error-code" in answer.headers:
        codes = told["headers"]["X-Error-Code"]["schema"]["enum"]
        assert answer.headers["x-error-code"] in codes
    if "code" in answer.json():
        forms = document["components"]["schemas"]
        schema = told["content"]["application/json"]["schema"]
        names = [each["$ref"].rpartition("/")[2] for each in schema.get("anyOf", [schema])]
        constants = [forms[name]["properties"].get("code", {}).get("const") for name in names]
        assert answer.json()["code"] in constants
