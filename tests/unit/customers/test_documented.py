"""The document of each record service describes every answer."""

from typing import Any

import httpx
import schemathesis
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi import checks

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


async def test_each_kind_of_answer_is_documented(service):
    schema = schemathesis.openapi.from_dict((await service.request("GET", "/openapi.json")).json())

    def documented(path: str, method: str, answer: httpx.Response) -> None:
        schema[path][method].Case().validate_response(answer, checks=DOCUMENTED)

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
