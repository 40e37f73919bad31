"""Bodies of responses, how errors are rendered, and their OpenAPI declarations."""

from __future__ import annotations

import json
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.customers.records.errors import (
    InvalidFields,
    RecordError,
    RecordsUnavailable,
)
from deployments.customers.records.json_body import MAX_BODY_BYTES
from deployments.customers.records.record_type import RecordType
from deployments.http.errors import OverloadedError, RefusedError
from deployments.http.messages import JSON_HEADERS, Answer, Headers, RenderError, retry_after
from deployments.log import logger

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
_INVALID_FIELDS = {"$ref": "#/components/schemas/ValidationErrorResponse"}
_SCHEMAS = {
    "Problem": Problem.model_json_schema(),
    "ValidationErrorResponse": {
        "type": "object",
        "title": "ValidationErrorResponse",
        "description": "Field (nested ones dotted) to the message of the rule that it breaks.",
        "additionalProperties": {"type": "string"},
    },
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
    """Return the failures of every operation; they bring the schema that _ERROR refers to."""
    return {
        500: {"model": ErrorResponse, "description": description},
        503: {
            "model": ErrorResponse,
            "description": "The store does not serve, or too much load (with `Retry-After`).",
        },
    }


def add_schemas(document: dict[str, Any]) -> None:
    """Add the schemas to the document that no model of a response brings."""
    document["components"]["schemas"] |= _SCHEMAS


def create_responses(record_type: RecordType) -> Responses:
    """Return the responses to create, which depend on whether it takes a body."""
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
    """Return the responses to update; for some types, invalid fields share 200 with success."""
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
        content[PROBLEM_JSON] = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {"description": description, "content": content}


def _body_refused() -> Responses:
    return {
        408: _answer("The body did not arrive in time.", None, problem=True),
        413: _answer(f"The body is longer than {MAX_BODY_BYTES} bytes.", None, problem=True),
        415: _answer("The body is not declared as JSON.", None, problem=True),
    }


_PROBLEM_HEADERS: Headers = ((b"content-type", PROBLEM_JSON.encode()),)


def error_renderer(record_type: RecordType) -> RenderError:
    """Return the function that renders every error of a service."""

    def render_error(scope: Scope, error: Exception) -> Answer:
        match error:
            case RecordError():
                return _error_response(record_type, error)
            case OverloadedError():
                return _error_response(record_type, RecordsUnavailable(str(error)))
            case InvalidFields():
                return json_answer(HTTPStatus.BAD_REQUEST, error.messages)
            case RefusedError() | HTTPException():
                return _problem(scope, error)
            case _:
                logger.error("%s: a request failed", record_type.name, exc_info=error)
                unexpected = "An unexpected error occurred"
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                return _error_response(record_type, RecordError(unexpected, status, "failed"))

    return render_error


def json_answer(status: int, content: Any, headers: Headers = JSON_HEADERS) -> Answer:
    """Answer with a JSON value."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return int(status), body, headers


def _error_response(record_type: RecordType, error: RecordError) -> Answer:
    status = HTTPStatus(error.status)
    code = f"{status.value} {status.name}" if record_type.status_in_error_code else status.name
    body = ErrorResponse(
        apiPath=f"uri={record_type.base_path}",
        errorCode=code,
        errorMessage=str(error),
        errortime=datetime.now().isoformat(timespec="microseconds"),
    )
    headers = (*JSON_HEADERS, *retry_after(error.retry_after_s))
    return json_answer(status, body.model_dump(), headers)


def _problem(scope: Scope, error: RefusedError | HTTPException) -> Answer:
    seconds = None
    match error:
        case RefusedError():
            status, detail, seconds = error.status, str(error), error.retry_after_s
        case HTTPException(status_code=HTTPStatus.METHOD_NOT_ALLOWED as status):
            detail = f"Method '{scope['method']}' is not supported."
        case HTTPException(status_code=status):
            detail = f"There is no resource {scope['path']}."
    title, instance = HTTPStatus(status).phrase, quote(scope["path"])
    problem = Problem(title=title, status=status, detail=detail, instance=instance)
    headers = (*_PROBLEM_HEADERS, *retry_after(seconds))
    return json_answer(status, problem.model_dump(), headers)
