"""What every service has in common: statuses, limits, forms of errors, probes, and its document."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi import checks

from deployments.access.tokens import Tokens
from deployments.console.api import create_app as console_app
from deployments.console.service import ConsoleService
from deployments.customers import record_types
from deployments.customers.records.api import create_app as records_app
from deployments.customers.records.service import RecordService
from deployments.forecast.api import create_app as forecast_app
from deployments.gateway.api import create_app as gateway_app
from deployments.gateway.errors import BadRequestError, InferenceUnavailableError
from deployments.gateway.inference_calls.client import InferenceClient
from deployments.gateway.login import Logins
from deployments.gateway.service import GatewayService
from deployments.http.docs import page_headers
from deployments.http.errors import UnauthorizedError
from deployments.inference.api import create_app as inference_app
from deployments.inference.policy_model import NonFiniteStateError
from deployments.stateful import errors
from deployments.store import open_store
from tests.unit.console.reports import FakeFeed, FakeServe
from tests.unit.forecasters import density_service, flow_service
from tests.unit.gateway.conftest import DEADLINE_S, FakeInference, access_by, make_tokens
from tests.unit.http.apps import client_of
from tests.unit.inference.serving import STEP, FakeService, Outcome

CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.allow_header_conformance,
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


def inference(outcome: Outcome = STEP) -> Callable[[Path], FastAPI]:
    return lambda folder: inference_app(FakeService(outcome))


def gateway(error: Exception | None = None) -> Callable[[Path], FastAPI]:
    def make(folder: Path) -> FastAPI:
        tokens = make_tokens()
        client = InferenceClient(FakeInference(error=error), DEADLINE_S)
        logins = cast(Logins, LoginsOfAnn(tokens))
        return gateway_app(GatewayService(logins, access_by(tokens), client))

    return make


def density(folder: Path) -> FastAPI:
    return forecast_app(asyncio.run(density_service(folder)))


def flow(folder: Path) -> FastAPI:
    return forecast_app(asyncio.run(flow_service(folder)))


def records(name: str) -> Callable[[Path], FastAPI]:
    def make(folder: Path) -> FastAPI:
        store = open_store(f"sqlite:///{folder / 'store.db'}")
        return records_app(RecordService(record_types()[name], store))

    return make


def console(folder: Path) -> FastAPI:
    return console_app(ConsoleService(None, FakeFeed().open, FakeServe([]).read))


class Service(NamedTuple):
    """A service and one of its routes that reads a body.

    Attributes:
        base: what its paths begin with in the application itself.
        allow: methods of the route.
        limit: bytes of a body.
    """

    make: Callable[[Path], FastAPI]
    route: str
    allow: str = "POST"
    limit: int = 65_536
    base: str = ""
    method: str = "POST"


SERVICES = {
    "inference": Service(inference(), "/predict_action"),
    "gateway": Service(gateway(), "/traffic/action", "GET, POST"),
    "density": Service(density, "/predict"),
    "flow": Service(flow, "/forecast", limit=1 << 20),
    "console": Service(console, "/stream", "GET"),
} | {
    name: Service(records(name), "", "DELETE, GET, POST, PUT", base=f"/api/{name}", method="PUT")
    for name in record_types()
}
WITH_BODIES = [name for name in SERVICES if name != "console"]
TITLES = {
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Request Entity Too Large",
}


@pytest.fixture
def bearer() -> dict[str, str]:
    return {"Authorization": f"Bearer {make_tokens().issue('ann')}"}


@pytest.fixture
async def client(
    name: str, tmp_path: Path, bearer: dict[str, str]
) -> AsyncIterator[httpx.AsyncClient]:
    app = await asyncio.to_thread(SERVICES[name].make, tmp_path)
    async with client_of(app) as client:
        client.headers = bearer | {"content-type": "application/json"}
        yield client


def assert_error(name: str, answer: httpx.Response, status: int, message: str, path: str) -> None:
    """Assert that an error has the form of its service."""
    assert answer.status_code == status
    body = answer.json()
    if path.startswith("/api/"):
        assert answer.headers["content-type"] == "application/problem+json"
        assert body == {
            "title": TITLES[status],
            "status": status,
            "detail": message,
            "instance": path,
        }
        return
    assert answer.headers["content-type"] == "application/json"
    if name == "gateway":
        assert abs(body.pop("timestamp") - time.time() * 1000) < 60_000
        assert body == {"status": "error", "message": message}
    else:
        assert body == {"detail": message}


@pytest.mark.parametrize("name", SERVICES)
async def test_a_wrong_method_is_405_with_the_allowed_ones(name, client):
    service = SERVICES[name]
    path = service.base + service.route
    answer = await client.request("PATCH", path)
    message = "Method 'PATCH' is not supported." if service.base else "Method Not Allowed"
    assert_error(name, answer, 405, message, path)
    assert answer.headers["allow"] == service.allow


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("tail", ["/nowhere", "/a/b/c"])
async def test_an_unknown_path_is_404(name, client, tail):
    path = SERVICES[name].base + tail
    answer = await client.get(path)
    message = f"There is no resource {path}." if SERVICES[name].base else "Not Found"
    assert_error(name, answer, 404, message, path)


@pytest.mark.parametrize("name", WITH_BODIES)
async def test_a_body_beyond_the_limit_is_413_and_not_read_to_its_end(name, client):
    service, sent = SERVICES[name], 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 10_000
            yield b" " * 10_000

    path = service.base + service.route
    whole = b" " * (service.limit + 1)
    for content in (whole, endless()):
        answer = await client.request(service.method, path, content=content)
        message = f"The request body is larger than {service.limit} bytes"
        assert_error(name, answer, 413, message, path)
    assert sent < 2 * service.limit


@pytest.mark.parametrize("name", WITH_BODIES)
async def test_a_body_that_never_ends_is_408(name, client, monkeypatch):
    monkeypatch.setattr("deployments.http.request.BODY_TIMEOUT_S", 0.05)

    async def drip() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    path = SERVICES[name].base + SERVICES[name].route
    answer = await client.request(SERVICES[name].method, path, content=drip())
    assert_error(name, answer, 408, "The request body did not arrive in time", path)


@pytest.mark.parametrize("name", WITH_BODIES)
async def test_beyond_its_load_it_is_503_with_the_time_to_come_back(
    name, tmp_path, bearer, monkeypatch
):
    monkeypatch.setattr("deployments.http.shedding.MAX_AT_WORK", 0)
    app = await asyncio.to_thread(SERVICES[name].make, tmp_path)
    path = SERVICES[name].base + SERVICES[name].route
    async with client_of(app) as client:
        answer = await client.request(SERVICES[name].method, path, headers=bearer)
    if name in record_types():
        assert answer.json()["errorMessage"] == "Too many requests are waiting"
        assert answer.json()["errorCode"].endswith("SERVICE_UNAVAILABLE")
    else:
        assert_error(name, answer, 503, "Too many requests are waiting", path)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("name", WITH_BODIES)
async def test_its_pages_are_guarded(name, client):
    for page in ["/docs", "/"] if name == "inference" else ["/docs"]:
        answer = await client.get(SERVICES[name].base + page)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        scripts = answer.headers["content-security-policy"].partition("script-src")[2]
        assert "unsafe" not in scripts.partition(";")[0]
        assert page_headers().keys() <= answer.headers.keys()


VARIANTS: dict[str, Callable[[Path], FastAPI]] = {
    **{name: SERVICES[name].make for name in WITH_BODIES},
    "inference, another observation": inference(errors.KeyReusedError()),
    "inference, not finite": inference(NonFiniteStateError()),
    "inference, away": inference(errors.UnavailableError("away")),
    "inference, outcome unknown": inference(errors.OutcomeUnknownError()),
    "inference, too many states": inference(errors.TooManyStatesError(100_000, 300)),
    "inference, a defect": inference(RuntimeError("a defect")),
    "gateway, no token": gateway(),
    "gateway, inference away": gateway(InferenceUnavailableError("unreachable")),
    "gateway, another observation": gateway(BadRequestError("another observation", 422)),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_generated_requests_get_documented_answers_only(variant, tmp_path, bearer):
    """Make requests from the document, valid and broken. A documented 500 is an answer, too."""
    app = VARIANTS[variant](tmp_path)
    document = schemathesis.openapi.from_asgi(str(app.openapi_url), app)
    headers = {} if variant.endswith("no token") else bearer
    for operation in (document[path][method] for path in document for method in document[path]):
        is_action = (operation.method.upper(), operation.path) == ("POST", "/traffic/action")
        if variant == "gateway, another observation" and not is_action:
            continue

        @settings(
            max_examples=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        )
        @given(case=operation.as_strategy())
        def responds_as_documented(case: Any) -> None:
            case.call_and_validate(headers=headers, checks=CHECKS)

        responds_as_documented()
