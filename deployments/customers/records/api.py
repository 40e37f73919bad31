"""Routes of a record service, and their handlers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI
from starlette.types import Scope

from deployments.customers.records.errors import InvalidFields
from deployments.customers.records.json_body import (
    MAX_BODY_BYTES,
    check_content_type,
    read_json_object,
)
from deployments.customers.records.record_type import RecordType
from deployments.customers.records.responses import (
    MOBILE_NUMBER_PARAMETER,
    StatusResponse,
    add_schemas,
    create_responses,
    error_renderer,
    find_responses,
    json_answer,
    update_responses,
)
from deployments.customers.records.service import RecordService
from deployments.http.access_log import AccessLog
from deployments.http.docs import add_docs, declared_body, redescribe
from deployments.http.errors import RefusedError
from deployments.http.fast_routes import FastRoutes
from deployments.http.messages import JSON_HEADERS, Answer
from deployments.http.probes import Probes


class Routes:
    """Handlers around a service. Their docstrings are those of the OpenAPI document."""

    def __init__(self, service: RecordService) -> None:
        self._service = service
        self._created = _success(HTTPStatus.CREATED, service.record_type.created)
        self._processed = _success(HTTPStatus.OK, "Request processed successfully")

    async def create(self, scope: Scope, body: bytes) -> Answer:
        """Create the record of a customer who has none, with a new record number."""
        takes_body = self._service.record_type.create_request is not None
        asked = read_json_object(scope, body) if takes_body else _mobile_number(scope)
        await self._service.create(asked)
        return self._created

    async def fetch(self, scope: Scope, body: bytes) -> Answer:
        """Fetch the record with this mobile number."""
        return 200, await self._service.fetch(_mobile_number(scope)), JSON_HEADERS

    async def update(self, scope: Scope, body: bytes) -> Answer:
        """Replace the record with this record number; its mobile number may change."""
        try:
            await self._service.update(read_json_object(scope, body))
        except InvalidFields as error:
            return json_answer(self._service.record_type.invalid_update_status, error.messages)
        return self._processed

    async def delete(self, scope: Scope, body: bytes) -> Answer:
        """Delete the record with this mobile number."""
        await self._service.delete(_mobile_number(scope))
        return self._processed


def _mobile_number(scope: Scope) -> str:
    parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    values = [value for name, value in parameters if name == "mobileNumber"]
    if not values:
        raise RefusedError("Required parameter 'mobileNumber' is not present.", 400)
    # given twice, it is ambiguous; joined by a comma, it is not a number
    return ",".join(values)


def _success(status: HTTPStatus, message: str) -> Answer:
    return json_answer(
        status, StatusResponse(statusCode=str(status.value), statusMsg=message).model_dump()
    )


def create_app(
    service: RecordService, probes: Probes | None = None, access_log: AccessLog | None = None
) -> FastAPI:
    """Build the app of a record service: operations on its base path and aliases, and docs."""
    record_type = service.record_type

    app = FastAPI(
        title=f"{record_type.name.capitalize()} service",
        version="1.0.0",
        openapi_url=f"{record_type.base_path}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_docs(app)
    app.get(f"{record_type.base_path}/sayHello", summary="Liveness", tags=["liveness"])(say_hello)
    # The contract has whole paths. Below a prefix, the base path would be the empty path, which
    # FastAPI redirects.
    fast = FastRoutes(app, error_renderer(record_type), access_log=access_log, whole_paths=True)
    routes = Routes(service)
    for path in (record_type.base_path, *record_type.aliases):
        _add_operations(fast, path, routes, record_type)
    probes = probes or Probes()
    probes.add_to(fast, record_type.base_path)
    redescribe(app, add_schemas)
    for path in record_type.aliases:  # which may be route prefixes of applications
        probes.add_to(fast, path, documented=False)
    return app


async def say_hello() -> str:
    """Say hello: the service answers."""
    return "Hello World"


def _add_operations(fast: FastRoutes, path: str, routes: Routes, record_type: RecordType) -> None:
    """Add create, fetch, update and delete at a path."""
    by_mobile_number = {"parameters": [MOBILE_NUMBER_PARAMETER]}
    takes_body: dict[str, Any] = {"check": check_content_type, "max_body": MAX_BODY_BYTES}
    request_type, record = record_type.create_request, record_type.record.__name__
    create: dict[str, Any] = {"openapi_extra": by_mobile_number}
    if request_type is not None:
        body = declared_body(schema=request_type.model_json_schema())
        create = {**takes_body, "openapi_extra": body}
    fast.add(
        "POST",
        path,
        routes.create,
        summary="Create",
        status_code=HTTPStatus.CREATED,
        response_model=StatusResponse,
        responses=create_responses(record_type),
        **create,
    )
    fast.add(
        "GET",
        path,
        routes.fetch,
        summary="Fetch",
        response_model=record_type.record,
        responses=find_responses(),
        openapi_extra=by_mobile_number,
    )
    fast.add(
        "DELETE",
        path,
        routes.delete,
        summary="Delete",
        response_model=StatusResponse,
        responses=find_responses(),
        openapi_extra=by_mobile_number,
    )
    fast.add(
        "PUT",
        path,
        routes.update,
        summary="Update",
        responses=update_responses(record_type),
        openapi_extra=declared_body(schema={"$ref": f"#/components/schemas/{record}"}),
        **takes_body,
    )
