"""Requests that cannot be read: problem+json, and nothing changes."""

import json

import httpx
import pytest

from tests.unit.customers.requests import Service, changed, new_customer

JSON = {"content-type": "application/json"}


def assert_problem(answer: httpx.Response, status: int, title: str, detail: str, path: str) -> None:
    """Assert that the answer is RFC 9457's problem details."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == status
    assert answer.json() == {"title": title, "status": status, "detail": detail, "instance": path}


def assert_unreadable(answer: httpx.Response, service: Service) -> None:
    path = service.record_type.base_path
    assert_problem(answer, 400, "Bad Request", "Failed to read request", path)


MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "blank": b"  \n",
    "cut off": b'{"name": "Madan',
    "two values": b"{} {}",
    "array": b"[]",
    "string": b'"x"',
    "null": b"null",
    "NaN": b'{"x": NaN}',
    "invalid UTF-8": b'{"name": "\xff\xfe"}',
    "byte order mark": b'\xef\xbb\xbf{"name": "Madan Reddy"}',
    "raw control character": b'{"name": "Madan\x01Reddy"}',
    "lone surrogate": b'{"name": "Madan\\ud800Reddy"}',
    "lone surrogate as a name": b'{"\\udfff": 1}',
    "too deep in a member": b'{"x": ' + b'{"x": ' * 5_000 + b"1" + b"}" * 5_001,
    "member given twice": b'{"name": "Madan Reddy", "name": "Another"}',
    "nested member given twice": b'{"accountsDto": {"accountType": "a", "accountType": "b"}}',
    "beyond 64 bits": b'{"totalLoan": 9223372036854775808}',
    "below 64 bits": b'{"totalLoan": -9223372036854775809}',
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_bodies(service, name):
    record = await service.created()
    answer = await service.request("PUT", content=MALFORMED[name], headers=JSON)
    assert_unreadable(answer, service)
    assert (await service.fetch()).json() == record


WRONG_TYPES: dict[str, dict[str, list[str]]] = {
    "accounts": {
        "name": ["1", "true", "[]", "{}", "1.5"],
        "email": ["1", '["a@b"]'],
        "mobileNumber": ["4354437687", "true", "{}"],
        "accountsDto": ['"x"', "[]", "1", "true"],
        "accountsDto.accountNumber": ['"1234567890"', "1234567890.0", "1.0", "true", "1e9", "[]"],
        "accountsDto.accountType": ["1", "{}"],
        "accountsDto.branchAddress": ["false", "[]"],
    },
    "loans": {
        "mobileNumber": ["4354437687"],
        "loanNumber": ["123456789012"],
        "loanType": ["1"],
        "totalLoan": ['"100000"', '""', "1.0", "1e5", "true", "[]", "{}", "1e999"],
        "amountPaid": ['"0"', "0.0", "-0.0", "false"],
        "outstandingAmount": ['"0"', "0.0", "false"],
    },
    "cards": {
        "mobileNumber": ["4354437687"],
        "cardNumber": ["123456789012"],
        "cardType": ["1"],
        "totalLimit": ['"1"', "1.0", "true"],
        "amountUsed": ['"0"', "0.0", "false"],
        "availableAmount": ['"0"', "0.0", "false"],
    },
}


@pytest.mark.parametrize(
    ("service", "path", "value"),
    [
        (name, path, value)
        for name, fields in WRONG_TYPES.items()
        for path, values in fields.items()
        for value in values
    ],
    indirect=["service"],
)
async def test_a_field_of_the_wrong_json_type(service, path, value):
    record = await service.created()
    body = json.dumps(changed(record, path, "@@")).replace('"@@"', value)
    answer = await service.request("PUT", content=body, headers=JSON)
    assert_unreadable(answer, service)
    assert (await service.fetch()).json() == record


class TestContentType:
    @pytest.mark.parametrize(
        "content_type",
        [
            *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
            *("application/xml", "application/jsonp", "text/json", "json", "", "*/*"),
        ],
    )
    async def test_another_type_is_refused(self, service, content_type):
        record = await service.created()
        answer = await service.request(
            "PUT", content=json.dumps(record), headers={"content-type": content_type}
        )
        detail = f"Content-Type '{content_type}' is not supported."
        path = service.record_type.base_path
        assert_problem(answer, 415, "Unsupported Media Type", detail, path)

    async def test_an_undeclared_body_counts_as_bytes(self, accounts):
        answer = await accounts.request("POST", content=json.dumps(new_customer()))
        detail = "Content-Type 'application/octet-stream' is not supported."
        assert_problem(answer, 415, "Unsupported Media Type", detail, "/api/accounts")

    async def test_no_body_and_no_type_is_an_empty_body(self, accounts):
        assert_unreadable(await accounts.request("POST"), accounts)

    @pytest.mark.parametrize(
        "content_type",
        ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"],
    )
    async def test_ways_to_declare_json(self, accounts, content_type):
        answer = await accounts.request(
            "POST", content=json.dumps(new_customer()), headers={"content-type": content_type}
        )
        assert answer.status_code == 201


class TestMissingParameter:
    @pytest.mark.parametrize("method", ["GET", "DELETE"])
    @pytest.mark.parametrize("query", ["", "?", "?mobilenumber=4354437687", "?mobile=1"])
    async def test_fetch_and_delete(self, service, method, query):
        answer = await service.request(method, query)
        detail = "Required parameter 'mobileNumber' is not present."
        assert_problem(answer, 400, "Bad Request", detail, service.record_type.base_path)

    @pytest.mark.parametrize("service", ["loans", "cards"], indirect=True)
    async def test_create_of_loans_and_cards(self, service):
        answer = await service.request("POST", json=new_customer())
        detail = "Required parameter 'mobileNumber' is not present."
        assert_problem(answer, 400, "Bad Request", detail, service.record_type.base_path)


class TestMethodsAndPaths:
    @pytest.mark.parametrize("tail", ["/", "/account/", "/sayHello/", "/docs/x"])
    async def test_unknown_paths(self, service, tail):
        answer = await service.request("GET", tail)
        path = service.record_type.base_path + tail
        assert_problem(answer, 404, "Not Found", f"There is no resource {path}.", path)

    async def test_the_instance_is_a_valid_reference(self, service):
        answer = await service.request("GET", "/Zoë 1%2F?x=1")
        assert answer.json()["instance"] == service.record_type.base_path + "/Zo%C3%AB%201/"
