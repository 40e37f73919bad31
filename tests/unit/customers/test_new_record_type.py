"""A fourth type of record takes a declaration alone; the document describes every answer."""

from typing import Annotated, Any

import httpx
import schemathesis
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi import checks

from deployments.customers import record_types
from deployments.customers.records.record_type import (
    Record,
    RecordType,
    at_least,
    digits,
    not_empty,
)
from tests.unit.customers.requests import MOBILE, new_customer


class Deposit(Record):
    """What a module of its own would declare."""

    depositNumber: Annotated[
        str,
        not_empty("DepositNumber cannot be null or empty"),
        digits(8, "DepositNumber must be 8 digits"),
    ]
    amount: Annotated[int, at_least(100, "At least 100")]

    @property
    def number(self) -> str:
        return self.depositNumber


DEPOSITS = RecordType(
    base_path="/api/deposits",
    record=Deposit,
    new_record=lambda mobile, number: Deposit(
        mobileNumber=mobile, depositNumber=number, amount=100
    ),
    number_length=8,
    created="Deposit created successfully",
    already_registered="Deposit of {mobile} exists",
    mobile_unknown="No deposit of {mobile}",
    number_unknown="No deposit {number}",
)


async def test_a_declaration_is_a_whole_service(make_service):
    deposits = make_service(DEPOSITS)
    record = await deposits.created()
    assert record == {
        "mobileNumber": MOBILE,
        "depositNumber": record["depositNumber"],
        "amount": 100,
    }
    assert (await deposits.create()).json()["errorMessage"] == f"Deposit of {MOBILE} exists"
    assert (await deposits.update({**record, "amount": 99})).json() == {"amount": "At least 100"}
    assert (await deposits.update({**record, "amount": 500})).status_code == 200
    assert (await deposits.fetch()).json()["amount"] == 500
    assert (await deposits.delete()).status_code == 200
    assert (await deposits.fetch()).json()["errorMessage"] == f"No deposit of {MOBILE}"
    schema = (await deposits.request("GET", "/openapi.json")).json()["components"]["schemas"]
    assert schema["Deposit"]["properties"]["amount"]["minimum"] == 100


def test_the_three_types_are_found_by_their_modules():
    assert list(record_types()) == ["accounts", "cards", "loans"]
    for name, record_type in record_types().items():
        assert record_type.name == name
        assert record_type.base_path == f"/api/{name}"


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
