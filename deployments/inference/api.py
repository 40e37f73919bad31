"""Routes of the inference service, as the contract lists them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import TypeAdapter
from starlette.types import Scope

from deployments.http.access_log import AccessLog
from deployments.http.docs import declared_body, documented_app, page_headers
from deployments.http.errors import ErrorBody, declared_code, declared_detail_errors
from deployments.http.fast_routes import FastRoutes
from deployments.http.messages import Answer, IdempotencyKey, Run
from deployments.http.probes import Probes
from deployments.http.request import BearerGuard, BodyReader
from deployments.inference.open_inference import routes as open_inference
from deployments.inference.open_inference.messages import InferRequest, InferResponse, ProtocolError
from deployments.inference.open_inference.routes import OpenInference, speaks_protocol
from deployments.inference.routes import Routes, read_body, render_error
from deployments.inference.runs import MAX_FILE, ForkRequest, RunInfo, RunList, Runs, RunSteps
from deployments.inference.schemas import (
    BatchRequest,
    BatchResponse,
    Health,
    InvalidBody,
    KeyReused,
    ModelInfo,
    OutcomeUnknown,
    Prediction,
    PredictionRequest,
    ResetRequest,
    ResetResponse,
    describe,
)
from deployments.inference.service import InferenceService
from models.networks.shipped import is_shipped

MAX_BODY = 64 * 1024  # bytes
MAX_BATCH_BODY = 2 * 1024 * 1024  # a thousand predictions
MAX_FILES = 4  # of runs that may be arriving at the same time
FILE_TYPE = "application/octet-stream"

_FORK = TypeAdapter(ForkRequest)
_NAMES: dict[str, Any] = {"run": (Run, None), "key": (IdempotencyKey, None)}

_LANDING_PAGE = Path(__file__).with_name("landing.html")
_DESCRIPTION = """One trained multi-agent recurrent policy that controls a network's road junctions.
Each junction has a hidden state per simulation run, kept between calls."""


def _errors(*statuses: int, invalid: Any = InvalidBody) -> dict[int | str, dict[str, Any]]:
    descriptions = {
        400: "Too many values, or a run id or an idempotency key of a wrong form",
        404: "Unknown junction or run",
        409: "Another policy answers the run",
        422: "Not the documented form, or numbers out of range; of one step also an idempotency "
        "key that was used with another observation",
        500: "A defect; the state may have changed or not",
        503: "Model not loaded, or too much load, or too many states, or it is not known whether "
        "the state has changed (with `Retry-After`); the code says which",
    }
    errors = declared_detail_errors(descriptions, *statuses, 422, 500, 503)
    errors[422]["model"] = invalid
    errors[500] |= {"model": OutcomeUnknown, "headers": declared_code("outcome_unknown")}
    errors[503] |= {
        "model": ErrorBody | OutcomeUnknown,
        "headers": declared_code(
            "model_not_loaded", "overloaded", "too_many_states", "outcome_unknown"
        ),
    }
    return errors


def _render_error(scope: Scope, error: Exception) -> Answer:
    render = open_inference.render_error if speaks_protocol(scope) else render_error
    return render(scope, error)


def create_app(
    service: InferenceService,
    probes: Probes | None = None,
    access_log: AccessLog | None = None,
    guard: BearerGuard | None = None,
) -> FastAPI:
    """Build the ASGI application around a service.

    Args:
        guard: asks for a token on every route but the probes and ``/health``.
    """
    app = documented_app(title="Inference service", version="2.0.0", description=_DESCRIPTION)
    fast = FastRoutes(app, _render_error, access_log=access_log, guard=guard)
    _add_prediction_routes(fast, Routes(service))
    probes = probes or Probes()
    _add_open_inference(fast, OpenInference(service, probes))
    probes.add_to(fast)
    _add_run_routes(app, Runs(service))
    if not is_shipped(service.network):
        describe(app, service.network)
    landing_page = _LANDING_PAGE.read_text(encoding="utf-8")
    guarded = page_headers(landing_page)

    @app.get("/health", response_model_exclude_none=True, tags=["status"])
    async def health() -> Health:
        """Tell whether a model is loaded and ready; always 200."""
        return service.health()

    @app.get("/model_info", tags=["status"])
    async def model_info() -> ModelInfo:
        """Tell the network's sizes and the junction table."""
        return service.model_info()

    @app.get("/", include_in_schema=False)
    async def landing() -> HTMLResponse:
        return HTMLResponse(landing_page, headers=guarded)

    return app


def _add_prediction_routes(fast: FastRoutes, routes: Routes) -> None:
    errors_of_a_step = _errors(400, 404, 408, 413, invalid=InvalidBody | KeyReused | ErrorBody)
    errors_of_a_step[422]["headers"] = declared_code("key_reused")
    fast.add(
        "POST",
        "/predict_action",
        routes.predict_action,
        max_body=MAX_BODY,
        takes={"request": (PredictionRequest, ...), **_NAMES},
        response_model=Prediction,
        responses=errors_of_a_step,
        summary="One step of one junction",
        tags=["prediction"],
    )
    fast.add(
        "POST",
        "/predict_actions",
        routes.predict_actions,
        max_body=MAX_BATCH_BODY,
        takes={"request": (BatchRequest, ...), **_NAMES},
        response_model=BatchResponse,
        responses=_errors(400, 408, 413),
        summary="Steps of several junctions of one run",
        tags=["prediction"],
    )
    fast.add(
        "POST",
        "/reset_hidden",
        routes.reset_hidden,
        max_body=MAX_BODY,
        counted=False,  # it is rare, and must get through while predictions are refused
        takes={**_NAMES, "body": (Annotated[ResetRequest | None, Body()], None)},
        response_model=ResetResponse,
        responses=_errors(400, 408, 413, invalid=InvalidBody | ErrorBody),
        summary="A new run: zeros for every junction",
        tags=["prediction"],
    )


def _add_run_routes(app: FastAPI, runs: Runs) -> None:
    bodies = BodyReader(max_unfinished=MAX_FILES, max_bytes=MAX_FILES * MAX_FILE)
    forks = BodyReader()
    add = partial(app.api_route, tags=["runs"])
    errors = partial(_errors, invalid=InvalidBody | KeyReused | ErrorBody)

    @add("/runs", methods=["GET"], responses=errors(503))
    async def list_runs() -> RunList:
        """List the runs that were used last."""
        return await runs.list()

    @add("/runs/{run}", methods=["GET"], responses=errors(404))
    async def find_run(run: str) -> RunInfo:
        """Return the steps and the idle time of a run."""
        return await runs.find(run)

    @add("/runs/{run}", methods=["DELETE"], responses=errors(400))
    async def end_run(run: str, key: IdempotencyKey = None) -> ResetResponse:
        """Free the hidden states of a run."""
        await runs.end(run, key)
        return ResetResponse()

    @add(
        "/runs/{run}/fork",
        methods=["POST"],
        responses=errors(400, 404, 408, 409, 413),
        openapi_extra=declared_body(schema=ForkRequest.model_json_schema()),
    )
    async def fork_run(run: str, request: Request, key: IdempotencyKey = None) -> RunSteps:
        """Begin a run anew from the hidden states of another one."""
        body = await forks.read(request.receive, MAX_BODY)
        return await runs.fork(run, read_body(_FORK, body).run_id, key)

    @add(
        "/runs/{run}/state",
        methods=["GET"],
        response_class=Response,
        responses=errors(400, 404) | {200: {"content": {FILE_TYPE: {}}}},
    )
    async def export_run(run: str) -> Response:
        """Return the hidden states of a run as a safetensors file."""
        return Response(await runs.export(run), media_type=FILE_TYPE)

    @add(
        "/runs/{run}/state",
        methods=["PUT"],
        responses=errors(400, 408, 413),
        openapi_extra=declared_body(FILE_TYPE),
    )
    async def restore_run(run: str, request: Request, key: IdempotencyKey = None) -> RunSteps:
        """Begin a run anew from such a file, of this run or another one."""
        return await runs.restore(run, await bodies.read(request.receive, MAX_FILE), key)


def _add_open_inference(fast: FastRoutes, protocol: OpenInference) -> None:
    model = f"/v2/models/{open_inference.MODEL}"
    versioned = f"{model}/versions/{open_inference.VERSION}"
    error: dict[str, Any] = {"model": ProtocolError}
    add = partial(fast.add, tags=["open inference protocol"])
    add("GET", "/v2", protocol.server, summary="Server")
    for path, probe in (("live", protocol.live), ("ready", protocol.ready)):
        add(
            "GET",
            f"/v2/health/{path}",
            probe,
            counted=False,
            logged=False,
            is_open=True,
            summary=f"{path.capitalize()}?",
            responses={503: error} if path == "ready" else {},
        )
    for path in (model, versioned):
        documented = path == model
        add("GET", path, protocol.model, summary="Model", include_in_schema=documented)
        add(
            "GET",
            f"{path}/ready",
            protocol.model_ready,
            summary="Model ready?",
            include_in_schema=documented,
        )
        add(
            "POST",
            f"{path}/infer",
            protocol.infer,
            max_body=MAX_BATCH_BODY,
            takes={"request": (InferRequest, ...), **_NAMES},
            response_model=InferResponse,
            responses=dict.fromkeys((400, 404, 408, 413, 422, 500, 503), error),
            summary="Steps of several junctions and runs",
            include_in_schema=documented,
        )
