"""The OpenAPI document describes every answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi import checks

from deployments.customers import record_types
from deployments.customers.records.api import create_app
from deployments.customers.records.service import RecordService
from deployments.store import open_store
from tests.unit.customers.requests import MOBILE, new_customer

# A documented 500 is an answer of the contract, so `not_a_server_error` is not among them; nor are
# the checks that certain statuses mean certain things.
DOCUMENTED: list[CheckFunction] = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.unsupported_method,
    checks.allow_header_conformance,
]


def read_schema(name: str, folder: Path) -> Any:
    """Read the document of a service in process, on a separate store."""
    store = open_store(f"sqlite:///{folder / 'store.db'}")
    app = create_app(RecordService(record_types()[name], store))
    return schemathesis.openapi.from_asgi(f"/api/{name}/openapi.json", app)


@pytest.fixture
def documented(service, tmp_path):
    """Hold an answer to a request against the document."""
    schema = read_schema(service.name, tmp_path / "documented")

    def check(path, method, answer):
        schema[path][method].Case().validate_response(answer, checks=DOCUMENTED)

    return check


async def test_each_kind_of_answer_is_documented(service, documented):
    record = await service.created()
    query, json = {"mobileNumber": MOBILE}, {"content-type": "application/json"}
    base = service.record_type.base_path
    kinds: list[tuple[str, dict[str, Any], int]] = [
        ("GET", {"params": query}, 200),
        ("GET", {}, 400),
        ("GET", {"params": {"mobileNumber": "1111111111"}}, 404),
        ("GET", {"params": {"mobileNumber": "12"}}, 500),
        ("PUT", {"json": record}, 200),
        ("PUT", {"json": {}}, service.record_type.invalid_update_status),
        ("PUT", {"content": b"{", "headers": json}, 400),
        ("PUT", {"content": b" " * 100_000, "headers": json}, 413),
        ("PUT", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ("POST", {"params": query, "json": new_customer()}, 400),
        ("DELETE", {"params": query}, 200),
        ("PUT", {"json": record}, 404),
        ("DELETE", {"params": query}, 404),
        ("DELETE", {}, 400),
        ("DELETE", {"params": {"mobileNumber": "12"}}, 500),
        ("POST", {"params": query, "json": new_customer()}, 201),
    ]
    for method, options, status in kinds:
        answer = await service.request(method, **options)
        assert answer.status_code == status, (method, options)
        documented(base, method, answer)
    documented(f"{base}/sayHello", "GET", await service.request("GET", "/sayHello"))
