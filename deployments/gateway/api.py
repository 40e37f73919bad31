"""Routes of the gateway, as the contract lists them, below the prefix ``/api``."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Route

from deployments.gateway.errors import GatewayError, error_body
from deployments.gateway.front_door import MAX_BODY, FrontDoor, answer_of
from deployments.gateway.options import GatewayOptions
from deployments.gateway.schemas import (
    ActionRequest,
    ActionResponse,
    ErrorBody,
    HealthResponse,
    LoginRequest,
    LoginResponse,
    ResetResponse,
)
from deployments.gateway.service import GatewayService
from deployments.http.docs import add_docs
from deployments.http.errors import BodyTooLargeError, BodyTooSlowError
from deployments.http.request import read_body
from deployments.http.run_id import Run

_DESCRIPTION = """The public entry to the traffic-signal policy.

Log in with `POST /auth/login`, press **Authorize** and paste the `accessToken`."""

_BEARER = Depends(HTTPBearer(auto_error=False, bearerFormat="JWT"))  # for the document alone


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    descriptions = {
        400: "The request breaks a rule, which `message` names",
        401: "Missing or invalid credentials",
        408: "The request body did not arrive in time",
        413: "The request body is too large",
        429: "Too many login attempts (with `Retry-After`)",
        500: "Internal error",
        503: "Too much load, or something needed does not answer (with `Retry-After`)",
    }
    return {s: {"model": ErrorBody, "description": descriptions[s]} for s in statuses}


def create_app(service: GatewayService, options: GatewayOptions) -> FastAPI:
    """Build the ASGI application around a service."""
    app = FastAPI(
        title="Traffic signal gateway",
        version="2.0.0",
        description=_DESCRIPTION,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        swagger_ui_parameters={"persistAuthorization": True},
    )
    app.add_middleware(FrontDoor, service=service, max_waiting=options.max_waiting)
    add_docs(app)
    _add_error_handlers(app)

    def authenticated(request: Request) -> None:
        service.tokens.authenticate(request.headers.get("authorization"))

    protected = [_BEARER, Depends(authenticated)]

    @app.post(
        "/auth/login",
        responses=_errors(400, 401, 408, 413, 429, 500, 503),
        openapi_extra=_body_of(LoginRequest),
        summary="Get a token",
        tags=["authentication"],
    )
    async def login(request: Request) -> LoginResponse:
        """Exchange user name and password for an access token."""
        body = await read_body(request.receive, MAX_BODY)
        return await service.login(body, _address(request, options.trust_forwarded_for))

    @app.get(
        "/traffic/action",
        responses=_errors(400, 401, 500, 503),
        dependencies=protected,
        summary="A demonstration",
        tags=["traffic"],
    )
    async def demo(request: Request, run: Run = None) -> ActionResponse:
        """Decide for a random junction with made-up observations."""
        return await service.demo(run, request.headers.get("x-request-id"))

    @app.post(
        "/traffic/action",
        response_model=ActionResponse,
        responses=_errors(400, 401, 408, 413, 500, 503),
        dependencies=[_BEARER],
        summary="Decide for a junction",
        tags=["traffic"],
    )
    async def act(request: ActionRequest, run: Run = None) -> None:
        """Choose the signal of a junction from its observations.

        When the inference service does not answer in time, the answer is RED with the status
        `fallback_mode (inference service down)`; a step that was late may still have been made.
        """
        raise NotImplementedError("FrontDoor answers this route")

    @app.post(
        "/traffic/reset",
        responses=_errors(400, 401, 500, 503),
        dependencies=protected,
        summary="Start a new simulation run",
        tags=["traffic"],
    )
    async def reset(request: Request, run: Run = None) -> ResetResponse:
        """Clear the hidden states of all junctions."""
        return await service.reset(run, request.headers.get("x-request-id"))

    @app.get(
        "/traffic/health",
        responses={503: {"model": HealthResponse | ErrorBody, "description": "Degraded"}},
        tags=["status"],
    )
    async def health(response: Response) -> HealthResponse:
        """Whether the inference service answers and is healthy."""
        answer = await service.health()
        response.status_code = 200 if answer.status == "healthy" else 503
        return answer

    _describe_own_errors_alone(app)
    return app


def _describe_own_errors_alone(app: FastAPI) -> None:
    """Leave out the 422 that FastAPI lists for every parameter: bad input is a 400 here."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        document = describe()
        for operations in document["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def _body_of(model: type[LoginRequest]) -> dict[str, Any]:
    """Declares a body that the route reads itself, with its own messages."""
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


def _address(request: Request, trust_forwarded_for: bool) -> str:
    forwarded = request.headers.get("x-forwarded-for") if trust_forwarded_for else None
    if forwarded:
        return forwarded.rpartition(",")[2].strip()  # what the nearest proxy has seen
    return request.client.host if request.client else "unknown"


def _add_error_handlers(app: FastAPI) -> None:
    async def failed(request: Request, error: Exception) -> Response:
        status, body, headers = answer_of(error)
        return Response(body, status, headers, media_type="application/json")

    for kind in (GatewayError, BodyTooLargeError, BodyTooSlowError, Exception):
        app.add_exception_handler(kind, failed)

    @app.exception_handler(StarletteHTTPException)
    async def no_route(request: Request, error: StarletteHTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        if error.status_code == 405:  # Starlette names the methods of one route of the path alone
            headers["Allow"] = ", ".join(_methods_of(app, request))
        return JSONResponse(error_body(str(error.detail)), error.status_code, headers)


def _methods_of(app: FastAPI, request: Request) -> list[str]:
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    routes = (route for route in app.routes if isinstance(route, Route) and route.path == path)
    methods = {method for route in routes for method in route.methods or ()}
    return sorted(methods or {"GET", "HEAD"})  # the files of the docs page are no routes
