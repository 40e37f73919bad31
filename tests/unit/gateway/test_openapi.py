"""Requests made from the OpenAPI document, valid and broken: no answer that it does not tell of."""

from __future__ import annotations

from typing import cast

import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from deployments.access.tokens import Tokens
from deployments.gateway.api import create_app
from deployments.gateway.errors import InferenceUnavailableError, KeyReusedError
from deployments.gateway.inference_calls.client import InferenceClient
from deployments.gateway.login import Logins
from deployments.gateway.service import GatewayCounts, GatewayService
from deployments.http.errors import UnauthorizedError
from tests.unit.gateway.conftest import DEADLINE_S, FakeInference, make_tokens

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


class LoginsOfAnn:
    """Lets one password in, without a store, whose connections belong to one event loop."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def login(self, username: object, password: object, address: str) -> str:
        if password != "secret":
            raise UnauthorizedError("Invalid username or password")
        return self._tokens.issue(str(username))

    async def close(self) -> None: ...


def make_app(error: Exception | None = None) -> FastAPI:
    tokens = make_tokens()
    inference = InferenceClient(FakeInference(error=error), DEADLINE_S)
    return create_app(
        GatewayService(
            cast(Logins, LoginsOfAnn(tokens)),
            tokens,
            inference,
            GatewayCounts(),
        ),
    )


schema = schemathesis.openapi.from_asgi("/openapi.json", make_app())
while_down = schemathesis.openapi.from_asgi(
    "/openapi.json", make_app(InferenceUnavailableError("unreachable"))
)
after_another_use_of_the_key = schemathesis.openapi.from_asgi(
    "/openapi.json", make_app(KeyReusedError("used with another observation"))
).include(path="/traffic/action", method="POST")
SETTINGS = settings(
    max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@schema.parametrize()
@SETTINGS
def test_with_a_token_every_answer_is_documented(case):
    token = make_tokens().issue("ann")
    case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)


@while_down.parametrize()
@SETTINGS
def test_while_the_inference_service_is_down_every_answer_is_documented(case):
    token = make_tokens().issue("ann")
    headers = {"Authorization": f"Bearer {token}"}
    # the documented 503 of health and reset is what is wanted here
    case.call_and_validate(headers=headers, checks=CHECKS[1:])


@after_another_use_of_the_key.parametrize()
@SETTINGS
def test_a_key_of_other_observations_is_documented(case):
    token = make_tokens().issue("ann")
    case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)


@schema.parametrize()
@SETTINGS
def test_without_a_token_every_answer_is_documented(case):
    case.call_and_validate(checks=CHECKS)
