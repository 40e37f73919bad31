"""Routes of the gateway, as the contract lists them, below the prefix ``/api``."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from deployments.gateway.errors import render_error
from deployments.gateway.schemas import (
    ActionRequest,
    ActionResponse,
    ErrorBody,
    HealthResponse,
    KeySet,
    LoginRequest,
    LoginResponse,
    ResetResponse,
)
from deployments.gateway.service import GatewayService
from deployments.http.access_log import AccessLog
from deployments.http.docs import declared_body, documented_app, redescribe
from deployments.http.errors import declared_errors
from deployments.http.fast_routes import FastRoutes
from deployments.http.messages import IdempotencyKey, Run
from deployments.http.probes import Probes
from models.networks.network import Network
from models.networks.shipped import is_shipped

MAX_BODY = 64 * 1024  # bytes

_DESCRIPTION = """The public entry to the traffic-signal policy.

Log in with `POST /auth/login`, press **Authorize** and paste the `accessToken`."""

_BEARER = Depends(HTTPBearer(auto_error=False, bearerFormat="JWT"))  # for the document only


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    descriptions = {
        400: "The request breaks a rule, which `message` names",
        401: "Missing or invalid credentials",
        403: "The token does not allow this",
        422: "The idempotency key was used with other observations",
        429: "Too many login attempts (with `Retry-After`)",
        500: "Internal error",
        503: "Too much load, or something needed does not answer (with `Retry-After`)",
    }
    return declared_errors(ErrorBody, descriptions, *statuses)


def create_app(
    service: GatewayService, probes: Probes | None = None, access_log: AccessLog | None = None
) -> FastAPI:
    """Build the ASGI application around a service."""
    app = documented_app(
        title="Traffic signal gateway",
        version="2.0.0",
        description=_DESCRIPTION,
        redirect_slashes=False,
        swagger_ui_parameters={"persistAuthorization": True},
    )
    fast = FastRoutes(app, render_error, access_log=access_log)
    _add_routes(fast, service)
    (probes or Probes()).add_to(fast)
    redescribe(app, _remove_422_of_parameters)
    if not is_shipped(service.network):
        describe(app, service.network)
    return app


def _add_routes(fast: FastRoutes, service: GatewayService) -> None:
    traffic = partial(fast.add, dependencies=[_BEARER], tags=["traffic"])
    fast.add(
        "POST",
        "/auth/login",
        service.login,
        max_body=MAX_BODY,
        response_model=LoginResponse,
        responses=_errors(400, 401, 408, 413, 429, 500, 503),
        openapi_extra=declared_body(schema=LoginRequest.model_json_schema()),
        summary="Get a token",
        tags=["authentication"],
    )
    fast.add(
        "GET",
        "/.well-known/jwks.json",
        service.keys,
        response_model=KeySet,
        responses=_errors(500, 503),
        summary="Keys to verify tokens with",
        tags=["authentication"],
    )
    traffic(
        "GET",
        "/traffic/action",
        service.demo,
        check=partial(service.access.authenticate, scope="act"),
        takes={"run": (Run, None), "key": (IdempotencyKey, None)},
        response_model=ActionResponse,
        responses=_errors(400, 401, 403, 500, 503),
        summary="A demonstration",
    )
    traffic(
        "POST",
        "/traffic/action",
        service.act,
        check=partial(service.access.authenticate, scope="act"),
        max_body=MAX_BODY,
        takes={"request": (ActionRequest, ...), "run": (Run, None), "key": (IdempotencyKey, None)},
        response_model=ActionResponse,
        responses=_errors(400, 401, 403, 408, 413, 422, 500, 503),
        summary="Decide for a junction",
    )
    traffic(
        "POST",
        "/traffic/reset",
        service.reset,
        check=partial(service.access.authenticate, scope="reset"),
        max_body=MAX_BODY,
        takes={"run": (Run, None), "key": (IdempotencyKey, None)},
        response_model=ResetResponse,
        responses=_errors(400, 401, 403, 408, 413, 500, 503),
        summary="Start a new simulation run",
    )

    fast.add(
        "GET",
        "/traffic/health",
        service.health,
        response_model=HealthResponse,
        responses={503: {"model": HealthResponse | ErrorBody, "description": "Degraded"}},
        tags=["status"],
    )


def _remove_422_of_parameters(document: dict[str, Any]) -> None:
    """Remove the 422 that FastAPI adds for every parameter: invalid input is a 400 here."""
    for operations in document["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            if "HTTPValidationError" in str(answers.get("422")):
                del answers["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


MAX_NAMED = 50


def describe(app: FastAPI, network: Network) -> None:
    """Put a network's junctions and sizes into the OpenAPI document."""
    first = next(iter(network.junctions.values()))

    def change(document: dict[str, Any]) -> None:
        schemas = document["components"]["schemas"]
        request = schemas["ActionRequest"]
        junction = request["properties"]["junctionId"]
        if network.n_agents <= MAX_NAMED:
            junction["enum"] = list(network.ids)
        else:
            del junction["enum"]
        request["example"] = {
            "junctionId": first.id,
            "observations": [1.0] + [0.0] * (first.obs_size - 1),
        }
        calls = any(each.n_calls for each in network.junctions.values())
        observations = request["properties"]["observations"]
        observations["maxItems"] = network.max_obs
        observations["description"] = (
            "Phase one-hot, min-green flag, one value per incoming lane"
            f"{' and per crossing' if calls else ''}; zero-padded to {network.max_obs}."
        )
        schemas["Shown"]["properties"]["phase"]["exclusiveMaximum"] = network.n_actions
        answered = schemas["ActionResponse"]["properties"]["predictedAction"]
        answered["exclusiveMaximum"] = network.n_actions

    redescribe(app, change)
