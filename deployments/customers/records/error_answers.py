"""How errors become answers, in the contract's three forms."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.customers.records.errors import InvalidFields, RecordError, UnexpectedError
from deployments.customers.records.record_type import RecordType
from deployments.customers.records.responses import PROBLEM_JSON, ErrorResponse, Problem
from deployments.http.answers import JSON_HEADERS, Answer, Headers, RenderError
from deployments.http.errors import BodyTooLargeError, BodyTooSlowError, RefusedError

logger = logging.getLogger("ray.serve")

_PROBLEM_HEADERS: Headers = ((b"content-type", PROBLEM_JSON.encode()),)


def error_renderer(record_type: RecordType) -> RenderError:
    """Return what renders every error of a service, unknown paths and methods included."""

    def render_error(scope: Scope, error: Exception) -> Answer:
        match error:
            case RecordError():
                return _error_response(record_type, error)
            case InvalidFields():
                return json_answer(HTTPStatus.BAD_REQUEST, error.messages)
            case RefusedError() | HTTPException():
                return _problem(scope, error)
            case _:
                logger.error("%s: a request failed", record_type.name, exc_info=error)
                return _error_response(record_type, UnexpectedError())

    return render_error


def json_answer(status: int, content: Any, headers: Headers = JSON_HEADERS) -> Answer:
    """Answer with a JSON value."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return int(status), body, headers


def _error_response(record_type: RecordType, error: RecordError) -> Answer:
    body = ErrorResponse(
        apiPath=f"uri={record_type.base_path}",
        errorCode=record_type.error_code(error),
        errorMessage=str(error),
        errortime=datetime.now().isoformat(timespec="microseconds"),
    )
    headers = JSON_HEADERS
    if error.retry_after_s is not None:
        headers = (*headers, (b"retry-after", b"%d" % error.retry_after_s))
    return json_answer(error.status, body.model_dump(), headers)


def _problem(scope: Scope, error: RefusedError | HTTPException) -> Answer:
    status = HTTPStatus(error.status if isinstance(error, RefusedError) else error.status_code)
    problem = Problem(
        title=status.phrase,
        status=status,
        detail=_detail(scope, error),
        instance=quote(scope["path"]),
    )
    return json_answer(status, problem.model_dump(), _PROBLEM_HEADERS)


def _detail(scope: Scope, error: RefusedError | HTTPException) -> str:
    match error:
        case BodyTooLargeError():
            return f"The body is longer than {error.limit} bytes."
        case BodyTooSlowError():
            return f"{error}."
        case RefusedError():
            return str(error)
        case HTTPException(status_code=HTTPStatus.METHOD_NOT_ALLOWED):
            return f"Method '{scope['method']}' is not supported."
        case _:
            return f"There is no resource {scope['path']}."
