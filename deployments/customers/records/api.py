"""Routes of a record service."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from deployments.customers.records.json_body import (
    MAX_BODY_BYTES,
    check_content_type,
)
from deployments.customers.records.responses import (
    MOBILE_NUMBER_PARAMETER,
    StatusResponse,
    add_schemas,
    create_responses,
    error_renderer,
    find_responses,
    update_responses,
)
from deployments.customers.records.service import RecordService
from deployments.http.access_log import AccessLog
from deployments.http.docs import declared_body, documented_app, redescribe
from deployments.http.fast_routes import FastRoutes
from deployments.http.probes import Probes


def create_app(
    service: RecordService, probes: Probes | None = None, access_log: AccessLog | None = None
) -> FastAPI:
    """Build the app of a record service: operations on its base path and aliases, and docs."""
    record_type = service.record_type

    app = documented_app(
        title=f"{record_type.name.capitalize()} service",
        version="1.0.0",
        openapi_url=f"{record_type.base_path}/openapi.json",
        redirect_slashes=False,
    )
    app.get(f"{record_type.base_path}/sayHello", summary="Liveness", tags=["liveness"])(say_hello)
    # The contract has whole paths. Below a prefix, the base path would be the empty path, which
    # FastAPI redirects.
    fast = FastRoutes(app, error_renderer(record_type), access_log=access_log, whole_paths=True)
    for path in (record_type.base_path, *record_type.aliases):
        _add_operations(fast, path, service)
    probes = probes or Probes()
    probes.add_to(fast, record_type.base_path)
    redescribe(app, add_schemas)
    for path in record_type.aliases:  # which may be route prefixes of applications
        probes.add_to(fast, path, documented=False)
    return app


async def say_hello() -> str:
    """Say hello: the service answers."""
    return "Hello World"


def _add_operations(fast: FastRoutes, path: str, service: RecordService) -> None:
    """Add create, fetch, update and delete at a path."""
    record_type = service.record_type
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
        service.create,
        summary="Create",
        status_code=HTTPStatus.CREATED,
        response_model=StatusResponse,
        responses=create_responses(record_type),
        **create,
    )
    fast.add(
        "GET",
        path,
        service.fetch,
        summary="Fetch",
        response_model=record_type.record,
        responses=find_responses(),
        openapi_extra=by_mobile_number,
    )
    fast.add(
        "DELETE",
        path,
        service.delete,
        summary="Delete",
        response_model=StatusResponse,
        responses=find_responses(),
        openapi_extra=by_mobile_number,
    )
    fast.add(
        "PUT",
        path,
        service.update,
        summary="Update",
        responses=update_responses(record_type),
        openapi_extra=declared_body(schema={"$ref": f"#/components/schemas/{record}"}),
        **takes_body,
    )
