"""How errors become answers, in the contract's three forms."""

from __future__ import annotations

import logging
from datetime import datetime
from http import HTTPStatus
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from deployments.customers.records.errors import (
    InvalidFields,
    RecordError,
    RecordsUnavailable,
    RequestRefused,
)
from deployments.customers.records.record_type import RecordType
from deployments.customers.records.responses import PROBLEM_JSON, ErrorResponse, Problem

logger = logging.getLogger(__name__)


def add_error_handlers(app: FastAPI, record_type: RecordType) -> None:
    """Answer every error of the app, unknown paths and methods included."""

    def answer_record_error(_: Request, error: RecordError) -> Response:
        if isinstance(error, RecordsUnavailable):
            logger.error("%s: %s: %s", record_type.name, error, error.__cause__)
        return _error_response(record_type, error)

    def answer_unexpected(_: Request, __: Exception) -> Response:
        unexpected = RecordsUnavailable("An unexpected error occurred")
        return _error_response(record_type, unexpected)  # the server logs the error itself

    app.exception_handler(RecordError)(answer_record_error)
    app.exception_handler(InvalidFields)(_answer_invalid_fields)
    app.exception_handler(RequestRefused)(_answer_refused)
    app.exception_handler(HTTPException)(_answer_no_route)
    app.exception_handler(Exception)(answer_unexpected)


def _error_response(record_type: RecordType, error: RecordError) -> Response:
    body = ErrorResponse(
        apiPath=f"uri={record_type.base_path}",
        errorCode=record_type.error_code(error),
        errorMessage=str(error),
        errortime=datetime.now().isoformat(timespec="microseconds"),
    )
    return JSONResponse(body.model_dump(), error.status)


def _answer_invalid_fields(_: Request, error: InvalidFields) -> Response:
    return JSONResponse(error.messages, HTTPStatus.BAD_REQUEST)


def _answer_refused(request: Request, error: RequestRefused) -> Response:
    return _problem(request, error.status, str(error))


def _answer_no_route(request: Request, error: HTTPException) -> Response:
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"Method '{request.method}' is not supported."
        response = _problem(request, HTTPStatus.METHOD_NOT_ALLOWED, detail)
        response.headers["Allow"] = ", ".join(sorted(_methods(request)))
        return response
    detail = f"There is no resource {request.url.path}."
    return _problem(request, HTTPStatus(error.status_code), detail)


def _methods(request: Request) -> set[str]:
    # The router's own Allow names one method only: each method of a path is a route of its own.
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    methods = {
        method
        for route in routes
        if route.path == request.url.path
        for method in route.methods or ()
    }
    return methods or {"GET", "HEAD"}  # the files of the docs page are no routes


def _problem(request: Request, status: HTTPStatus, detail: str) -> Response:
    problem = Problem(
        title=status.phrase, status=status, detail=detail, instance=quote(request.url.path)
    )
    return JSONResponse(problem.model_dump(), status, media_type=PROBLEM_JSON)
