"""The bodies of answers, and what OpenAPI says of them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from deployments.customers.records.fields import Fields
from deployments.customers.records.json_body import MAX_BODY_BYTES
from deployments.customers.records.record_type import RecordType

PROBLEM_JSON = "application/problem+json"


class StatusResponse(BaseModel):
    """A success without further content."""

    statusCode: str
    statusMsg: str


class ErrorResponse(BaseModel):
    """A request that was understood and could not be fulfilled."""

    apiPath: str
    errorCode: str
    errorMessage: str
    errortime: str


class Problem(BaseModel):
    """A request that could not be read (RFC 9457)."""

    title: str
    status: int
    detail: str
    instance: str


Responses = dict[int | str, dict[str, Any]]

_ERROR = {"$ref": "#/components/schemas/ErrorResponse"}
_INVALID_FIELDS = {
    "type": "object",
    "title": "ValidationErrorResponse",
    "description": "Field (nested ones dotted) to the message of the rule that it breaks.",
    "additionalProperties": {"type": "string"},
}
MOBILE_NUMBER_PARAMETER = {
    "name": "mobileNumber",
    "in": "query",
    "required": True,
    "description": "The customer's mobile number, 10 digits.",
    "schema": {"type": "string", "pattern": "^[0-9]{10}$"},
    "example": "4354437687",
}
_INVALID_NUMBER = "Not 10 digits, or a defect."


def _failures(description: str = "A defect.") -> Responses:
    """Return what every operation can answer; it brings the schema that is referred to above."""
    return {
        500: {"model": ErrorResponse, "description": description},
        503: {
            "model": ErrorResponse,
            "description": "The store does not serve (with `Retry-After`).",
        },
    }


def json_body(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the requestBody of an operation."""
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def schema_of(fields: type[Fields]) -> dict[str, Any]:
    """Return the schema of a body without nested objects."""
    return fields.model_json_schema()


def create_responses(record_type: RecordType) -> Responses:
    """Return the answers to create, which depend on whether it takes a body."""
    if record_type.create_request is None:
        return {
            400: _answer("Already registered, or no mobileNumber.", _ERROR, problem=True),
            **_failures(_INVALID_NUMBER),
        }
    both = {"anyOf": [_ERROR, _INVALID_FIELDS]}
    invalid = _answer("Already registered, invalid fields, or not an object.", both, problem=True)
    return {400: invalid, **_body_refused(), **_failures()}


def find_responses() -> Responses:
    """Return the failures of fetch and delete."""
    return {
        400: _answer("No mobileNumber.", None, problem=True),
        404: _answer("No record has the mobile number.", _ERROR),
        **_failures(_INVALID_NUMBER),
    }


def update_responses(record_type: RecordType) -> Responses:
    """Return the answers to update; invalid fields share 200 with success if the type says so."""
    success = {"$ref": "#/components/schemas/StatusResponse"}
    duplicate = "The mobile number belongs to another record, or the body is not a JSON object."
    if record_type.invalid_update_status == HTTPStatus.OK:
        updated = _answer("Updated, or invalid fields.", {"anyOf": [success, _INVALID_FIELDS]})
        refused = _answer(duplicate, _ERROR, problem=True)
    else:
        updated = _answer("Updated.", success)
        both = {"anyOf": [_ERROR, _INVALID_FIELDS]}
        refused = _answer(f"Invalid fields. {duplicate}", both, problem=True)
    unknown = _answer("No record has the number.", _ERROR)
    return {200: updated, 400: refused, 404: unknown, **_body_refused(), **_failures()}


def _answer(
    description: str, schema: dict[str, Any] | None, *, problem: bool = False
) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}} if schema else {}
    if problem:
        content[PROBLEM_JSON] = {"schema": Problem.model_json_schema()}
    return {"description": description, "content": content}


def _body_refused() -> Responses:
    return {
        408: _answer("The body did not arrive in time.", None, problem=True),
        413: _answer(f"The body is longer than {MAX_BODY_BYTES} bytes.", None, problem=True),
        415: _answer("The body is not declared as JSON.", None, problem=True),
    }
