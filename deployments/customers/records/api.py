"""The routes of one record service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.customers.records.error_handlers import add_error_handlers
from deployments.customers.records.errors import InvalidFields, MissingParameter
from deployments.customers.records.json_body import read_json_object
from deployments.customers.records.responses import (
    MOBILE_NUMBER_PARAMETER,
    StatusResponse,
    create_responses,
    find_responses,
    json_body,
    schema_of,
    update_responses,
)
from deployments.customers.records.service import RecordService
from deployments.http.docs import add_docs


class AbsolutePaths:
    """Routes by the whole path of the URL, as the contract writes it, whatever the route prefix.

    Below a prefix, the base path itself would be the empty path, which FastAPI answers with a
    redirect.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "root_path": ""}, receive, send)


def create_app(service: RecordService) -> FastAPI:
    """The app of a record service: its operations on its base path and aliases, and its docs."""
    record_type = service.record_type

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(
        title=f"{record_type.name.capitalize()} service",
        openapi_url=f"{record_type.base_path}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.add_middleware(AbsolutePaths)
    add_docs(app)
    add_error_handlers(app, record_type)
    app.get(f"{record_type.base_path}/sayHello", summary="Liveness", tags=["liveness"])(say_hello)
    for path in (record_type.base_path, *record_type.aliases):
        _add_create(app, path, service)
        _add_fetch_and_delete(app, path, service)
        _add_update(app, path, service)
    return app


async def say_hello() -> str:
    """A greeting: the service answers."""
    return "Hello World"


def _add_create(app: FastAPI, path: str, service: RecordService) -> None:
    request_type = service.record_type.create_request

    async def create(request: Request) -> Response:
        """Create the record of a customer who has none, with a number of its own."""
        if request_type is None:
            await service.create_for(_mobile_number(request))
        else:
            await service.create_from(request_type, await read_json_object(request))
        return _success(HTTPStatus.CREATED, service.record_type.created)

    _add_operation(
        app,
        "POST",
        path,
        create,
        summary="Create",
        status_code=HTTPStatus.CREATED,
        response_model=StatusResponse,
        responses=create_responses(service.record_type),
        openapi_extra=(
            {"parameters": [MOBILE_NUMBER_PARAMETER]}
            if request_type is None
            else {"requestBody": json_body(schema_of(request_type))}
        ),
    )


def _add_fetch_and_delete(app: FastAPI, path: str, service: RecordService) -> None:
    async def fetch(request: Request) -> Response:
        """Fetch the record with this mobile number."""
        record = await service.fetch(_mobile_number(request))
        return Response(record, media_type="application/json")

    async def delete(request: Request) -> Response:
        """Delete the record with this mobile number."""
        await service.delete(_mobile_number(request))
        return _success(HTTPStatus.OK, "Request processed successfully")

    parameters = {"parameters": [MOBILE_NUMBER_PARAMETER]}
    _add_operation(
        app,
        "GET",
        path,
        fetch,
        summary="Fetch",
        response_model=service.record_type.record,
        responses=find_responses(),
        openapi_extra=parameters,
    )
    _add_operation(
        app,
        "DELETE",
        path,
        delete,
        summary="Delete",
        response_model=StatusResponse,
        responses=find_responses(),
        openapi_extra=parameters,
    )


def _add_update(app: FastAPI, path: str, service: RecordService) -> None:
    record_type = service.record_type

    async def update(request: Request) -> Response:
        """Replace the record with this record number; its mobile number may change."""
        members = await read_json_object(request)
        try:
            await service.update(members)
        except InvalidFields as error:
            return JSONResponse(error.messages, record_type.invalid_update_status)
        return _success(HTTPStatus.OK, "Request processed successfully")

    schema = {"$ref": f"#/components/schemas/{record_type.record.__name__}"}
    _add_operation(
        app,
        "PUT",
        path,
        update,
        summary="Update",
        responses=update_responses(record_type),
        openapi_extra={"requestBody": json_body(schema)},
    )


def _add_operation(
    app: FastAPI,
    method: str,
    path: str,
    endpoint: Callable[[Request], Awaitable[Response]],
    **documentation: Any,
) -> None:
    """Serve an operation by a plain route, and declare it to FastAPI for the OpenAPI document.

    The operations read their requests themselves, so what FastAPI does for each request is not
    needed.
    """
    app.add_api_route(path, endpoint, methods=[method], **documentation)
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}  # a GET route of Starlette takes HEAD as well
    app.router.routes.insert(0, route)


def _mobile_number(request: Request) -> str:
    values = request.query_params.getlist("mobileNumber")
    if not values:
        raise MissingParameter("mobileNumber")
    # Given twice it is not clear which record is meant; with the comma it is no number at all.
    return ",".join(values)


def _success(status: HTTPStatus, message: str) -> Response:
    body = StatusResponse(statusCode=str(status.value), statusMsg=message)
    return JSONResponse(body.model_dump(), status)
