"""The client covers every documented route, sends what is documented, and reads every result."""

import itertools
from typing import Any

import jsonschema
import pytest

from greenwave.client import InvalidRequestError
from greenwave.client.call import Effect, Reply
from greenwave.client.service import nothing
from greenwave.client.tensors import HEADER_LENGTH
from tests.unit.greenwave.client.made import CALLS, DOCUMENTS, JUNCTION, NAMED, Made
from tests.unit.greenwave.client.play import answer

NO_CALLS = {
    "/api/accounts/account": "another name of the accounts",
    "/api/account": "another name of the accounts",
    "/.well-known/jwks.json": "for the libraries of services that verify tokens",
    **dict.fromkeys(
        [
            "/v2",
            "/v2/health/live",
            "/v2/health/ready",
            "/v2/models/policy",
            "/v2/models/policy/ready",
        ],
        "for clients of the Open Inference Protocol",
    ),
}


def test_every_documented_operation_has_a_call():
    documented = {
        (service, method.upper(), path)
        for service, document in DOCUMENTS.items()
        for path, operations in document["paths"].items()
        for method in operations
        if path not in NO_CALLS
    }
    assert {(made.service, made.call.method, made.path) for made in CALLS} == documented


def test_requests_are_what_the_documents_ask_for():
    for made in CALLS:
        check_request(made)


def check_request(made: Made) -> None:
    call, operation = made.call, made.operation
    body = operation.get("requestBody")
    assert (call.body is not None) >= bool(body and body.get("required")), call
    if call.body is not None:
        if not made.path.endswith("/state"):
            jsonschema.validate(made.json, made.schema(body))
        kind = "octet-stream" if made.is_binary else "json"
        assert call.headers["content-type"] == f"application/{kind}"
    sent = set(call.headers) - {"content-type", HEADER_LENGTH}
    sent |= {each.partition("=")[0].lower() for each in call.url.partition("?")[2].split("&")}
    known = {each["name"].lower() for each in operation.get("parameters", ())}
    assert sent - {""} <= known, call
    assert {name for name in known if name == "x-simulation-run"} <= sent, call
    assert call.authorized == bool(operation.get("security")), call


def test_what_must_not_be_done_twice_is_known():
    """Steps have keys and resets are one deed; a demonstration and a write are each another."""
    changes = ("action", "infer", "reset", "fork")
    for service, call in ((made.service, made.call) for made in CALLS):
        writes = service in ("accounts", "loans", "cards") and call.method != "GET"
        if writes or (call.method, call.url) == ("GET", "/api/traffic/action"):
            expected = Effect.NOT_IDEMPOTENT
        elif call.method in ("PUT", "DELETE") or any(word in call.url for word in changes):
            expected = Effect.IDEMPOTENT
        else:
            expected = Effect.NONE
        assert call.effect is expected, call


def example(schema: Any, components: Any, at: int, full: bool) -> Any:
    """Return a value of a schema: with its first or last alternatives, all fields or the least."""

    def inner(each: Any) -> Any:
        return example(each, components, at, full)

    match schema:
        case {"$ref": str(name)}:
            return inner(components["schemas"][name.rpartition("/")[2]])
        case {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Junction Id"}:
            return JUNCTION
        case {"anyOf": list(schemas)}:
            return inner(schemas[at])
        case {"const": value}:
            return value
        case {"enum": list(values)}:
            return values[at]
        case {"type": "object", "additionalProperties": dict(each)}:
            return {"key": inner(each)}
        case {"type": "object"}:
            fields, required = schema["properties"], schema.get("required", ())
            # what has a default is written all the same
            written = [n for n, f in fields.items() if full or n in required or f.get("default")]
            return {name: inner(fields[name]) for name in written}
        case {"type": "array", "items": items}:
            return [inner(items)]
    return {"integer": 1, "number": 0.5, "string": JUNCTION, "boolean": True, "null": None}[
        schema["type"]
    ]


def test_every_documented_result_is_read():
    for made, at, full in itertools.product(NAMED.values(), (0, -1), (True, False)):
        for status, described in made.operation["responses"].items():
            if status.startswith("2"):
                assert int(status) in made.call.answers, made.call
                check_result(made, int(status), made.schema(described), at, full)


def check_result(made: Made, status: int, schema: Any, at: int, full: bool) -> None:
    result = example(schema, schema["components"], at, full)
    if made.path == "/predict_actions":
        result["items"] *= 2  # as many as were asked for
    if made.path == "/api/loans" and made.call.method == "PUT" and at == -1:
        with pytest.raises(InvalidRequestError):  # which is a 200 there
            made.call.read(answer(status, result))
    else:
        made.call.read(answer(status, result))


def test_an_answer_of_another_form_is_no_result():
    for made in CALLS:
        if made.call.read is nothing:
            continue
        for body in (b"{}", b"[]", b'{"items": 1}', b"null", b"{"):
            with pytest.raises(ValueError, match=r".+"):
                made.call.read(Reply(200, {"content-type": "application/json"}, body))
