"""Every kind of change that a client does not survive is named, and no other."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tools.openapi.compatibility import incompatible_changes
from tools.openapi.documents import Document, documents

ITEM = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 9},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "next": {"$ref": "#/components/schemas/Item"},
        "shares": {"type": "array", "items": {"type": "number"}, "minItems": 1},
    },
}
CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}}
QUERY = {"name": "q", "in": "query", "required": False, "schema": {"type": "integer", "minimum": 0}}
ANSWER = {"content": CONTENT, "headers": {"X-Code": {"schema": {"enum": ["u", "v"]}}}}
DOCUMENT: Document = {
    "info": {"version": "1.0.0"},
    "paths": {
        "/ask": {
            "post": {
                "parameters": [QUERY],
                "requestBody": {"required": False, "content": CONTENT},
                "responses": {"200": {"description": "Yes"}, "404": {"description": "No"}},
            },
            "get": {"responses": {"200": ANSWER}},
        }
    },
    "components": {"schemas": {"Item": ITEM}},
}
Edit = Callable[[Any], object]


def edited(edit: Edit) -> Document:
    document: Document = json.loads(
        json.dumps(DOCUMENT)
    )  # parts that are shared there are not here
    edit(document)
    return document


def item(document: Any) -> Any:
    return document["components"]["schemas"]["Item"]["properties"]


def post(document: Any) -> Any:
    return document["paths"]["/ask"]["post"]


def answer(document: Any) -> Any:
    return document["paths"]["/ask"]["get"]["responses"]["200"]


BODY, GET = "POST /ask, body", "GET /ask, answer 200"

INCOMPATIBLE: list[tuple[Edit, list[str]]] = [
    (
        lambda d: d["paths"].clear(),
        [f"{each} /ask: the operation was there, is gone" for each in ("GET", "POST")],
    ),
    (lambda d: d["paths"]["/ask"].pop("get"), ["GET /ask: the operation was there, is gone"]),
    (
        lambda d: post(d)["responses"].pop("404"),
        ["POST /ask, answer 404: this status was documented, is gone"],
    ),
    (
        lambda d: post(d)["parameters"].clear(),
        ["POST /ask: the query parameter `q` was there, is gone"],
    ),
    (
        lambda d: post(d)["parameters"][0].update(required=True),
        ["POST /ask: the query parameter `q` was optional, is required"],
    ),
    (
        lambda d: post(d)["parameters"].append({**QUERY, "name": "p", "required": True}),
        ["POST /ask: the query parameter `p` was unknown, is required"],
    ),
    (
        lambda d: post(d)["parameters"][0]["schema"].update(minimum=1),
        ["POST /ask, query parameter `q`: minimum was 0, is 1"],
    ),
    (
        lambda d: post(d)["requestBody"].update(required=True),
        [f"{BODY}: it was optional, is required"],
    ),
    (
        lambda d: post(d).pop("requestBody"),
        [f"{BODY}: the form application/json was there, is gone"],
    ),
    (
        lambda d: post(d).update(security=[{"Bearer": []}]),
        ["POST /ask: the login was needless, is Bearer"],
    ),
    (
        lambda d: answer(d)["content"].clear(),
        [f"{GET}: the form application/json was there, is gone"],
    ),
    (lambda d: answer(d).pop("headers"), [f"{GET}: the header `X-Code` was there, is gone"]),
    (
        lambda d: answer(d)["headers"]["X-Code"]["schema"]["enum"].append("w"),
        [f"{GET}, header `X-Code`: the value was 'u' or 'v', is 'u' or 'v' or 'w'"],
    ),
    (
        lambda d: item(d).pop("note"),
        [f"{place}: the field `note` was there, is gone" for place in (GET, BODY)],
    ),
    (
        lambda d: item(d)["id"].update(type="integer"),
        [f"{place}.id: the type was string, is integer" for place in (GET, BODY)],
    ),
    (
        lambda d: d["components"]["schemas"]["Item"]["required"].append("kind"),
        [f"{BODY}: the field `kind` was optional, is required"],
    ),
    (
        lambda d: d["components"]["schemas"]["Item"]["required"].clear(),
        [f"{GET}: the field `id` was required, is optional"],
    ),
    (
        lambda d: (
            item(d).update(extra={"type": "string"}),
            d["components"]["schemas"]["Item"]["required"].append("extra"),
        ),
        [f"{BODY}: the field `extra` was unknown, is required"],
    ),
    (lambda d: item(d)["id"].update(minLength=2), [f"{BODY}.id: minLength was 1, is 2"]),
    (lambda d: item(d)["id"].update(minLength=0), [f"{GET}.id: minLength was 1, is 0"]),
    (lambda d: item(d)["id"].update(maxLength=5), [f"{BODY}.id: maxLength was 9, is 5"]),
    (lambda d: item(d)["id"].pop("maxLength"), [f"{GET}.id: maxLength was 9, is None"]),
    (lambda d: item(d)["id"].update(pattern="x"), [f"{BODY}.id: pattern was None, is x"]),
    (
        lambda d: item(d)["kind"]["enum"].append("c"),
        [f"{GET}.kind: the value was 'a' or 'b', is 'a' or 'b' or 'c'"],
    ),
    (
        lambda d: item(d)["kind"]["enum"].remove("a"),
        [f"{BODY}.kind: the value was 'a' or 'b', is 'b'"],
    ),
    (lambda d: item(d)["kind"].pop("enum"), [f"{GET}.kind: the value was 'a' or 'b', is any"]),
    (
        lambda d: item(d)["note"]["anyOf"].append({"type": "integer"}),
        [f"{GET}.note: the type was string, is integer"],
    ),
    (lambda d: item(d)["note"]["anyOf"].pop(), [f"{BODY}.note: the type was null, is string"]),
    (
        lambda d: item(d)["shares"]["items"].update(type="integer"),
        [f"{BODY}.shares[]: the type was number, is integer"],
    ),
    (
        lambda d: item(d)["shares"].pop("items"),
        [f"{GET}.shares[]: the type was number, is any"],
    ),
    (
        lambda d: d["components"]["schemas"]["Item"].update(additionalProperties=False),
        [f"{BODY}: any further field was possible, is impossible"],
    ),
    (
        lambda d: item(d).update(note={"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        [
            f"{GET}.note: the type was string, is integer",
            f"{BODY}.note: the type was null, is string",
        ],
    ),
]

COMPATIBLE: list[Edit] = [
    lambda d: None,
    lambda d: d["paths"].update({"/new": {"get": {"responses": {}}}}),
    lambda d: post(d)["responses"].update({"503": {"description": "Later"}}),
    lambda d: post(d)["parameters"].append({**QUERY, "name": "p"}),
    lambda d: post(d)["parameters"][0]["schema"].update(type="number"),
    lambda d: post(d)["parameters"][0]["schema"].pop("minimum"),
    lambda d: answer(d)["headers"]["X-Code"]["schema"]["enum"].pop(),
    lambda d: item(d).update(extra={"type": "string"}),
    lambda d: item(d)["id"].update(description="Another one"),
]


@pytest.mark.parametrize(("edit", "sentences"), INCOMPATIBLE)
def test_an_incompatible_change_is_named(edit, sentences):
    assert incompatible_changes(DOCUMENT, edited(edit)) == sentences


@pytest.mark.parametrize("edit", COMPATIBLE)
def test_a_compatible_change_is_let_pass(edit):
    assert incompatible_changes(DOCUMENT, edited(edit)) == []


def test_a_form_that_no_rule_compares_is_not_let_pass():
    document = edited(lambda d: item(d).update(note={"allOf": [{"type": "string"}]}))
    with pytest.raises(NotImplementedError, match="allOf"):
        incompatible_changes(document, document)


def fields(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every table of fields in a document."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield schema["properties"]
        for each in schema.values():
            yield from fields(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from fields(each)


@pytest.mark.parametrize("name", documents())
def test_no_field_of_a_real_document_can_go_unnoticed(name):
    document = documents()[name]
    assert incompatible_changes(document, copy.deepcopy(document)) == []
    removed = 0
    for at, table in enumerate(fields(document)):
        for field in table:
            later = copy.deepcopy(document)
            del list(fields(later))[at][field]
            assert any(f"`{field}`" in each for each in incompatible_changes(document, later)), (
                field
            )
            removed += 1
    assert removed > 8
