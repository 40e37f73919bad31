"""Routes of the inference service, as the contract lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI
from fastapi.responses import HTMLResponse

from deployments.http.detail_errors import declared_detail_errors
from deployments.http.docs import add_docs
from deployments.http.fast_routes import FastRoutes
from deployments.http.run_id import Run
from deployments.inference.options import InferenceOptions
from deployments.inference.routes import Routes, render_error
from deployments.inference.schemas import (
    BatchRequest,
    BatchResponse,
    Health,
    ModelInfo,
    Prediction,
    PredictionRequest,
    ResetRequest,
    ResetResponse,
)
from deployments.inference.service import InferenceService

MAX_BODY = 64 * 1024  # bytes
MAX_BATCH_BODY = 2 * 1024 * 1024  # a thousand predictions

_LANDING_PAGE = Path(__file__).with_name("landing.html")
_DESCRIPTION = """One trained multi-agent recurrent policy that controls five road junctions.
Each junction has a hidden state per simulation run, kept between calls."""


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    descriptions = {
        400: "Too many values, or an invalid run id",
        404: "Unknown junction",
        503: "Model not loaded, or too much load (with `Retry-After`)",
    }
    return declared_detail_errors(descriptions, *statuses)


def create_app(service: InferenceService, options: InferenceOptions) -> FastAPI:
    """Build the ASGI application around a service."""
    app = FastAPI(
        title="Inference service",
        version="2.0.0",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    add_docs(app)
    _add_prediction_routes(app, service, options.max_waiting)
    landing_page = _LANDING_PAGE.read_text(encoding="utf-8")

    @app.get("/health", response_model_exclude_none=True, tags=["status"])
    async def health() -> Health:
        """Tell whether a model is loaded and ready; always 200."""
        return service.health()

    @app.get("/model_info", tags=["status"])
    async def model_info() -> ModelInfo:
        """Tell the network's sizes and the junction table."""
        return service.model_info()

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def landing() -> str:
        return landing_page

    return app


def _add_prediction_routes(app: FastAPI, service: InferenceService, max_waiting: int) -> None:
    routes, fast = Routes(service), FastRoutes(app, render_error, max_waiting)
    fast.add(
        "POST",
        "/predict_action",
        routes.predict_action,
        max_body=MAX_BODY,
        takes={"request": (PredictionRequest, ...), "run": (Run, None)},
        response_model=Prediction,
        responses=_errors(400, 404, 408, 413, 503),
        summary="One step of one junction",
        tags=["prediction"],
    )
    fast.add(
        "POST",
        "/predict_actions",
        routes.predict_actions,
        max_body=MAX_BATCH_BODY,
        takes={"request": (BatchRequest, ...), "run": (Run, None)},
        response_model=BatchResponse,
        responses=_errors(400, 408, 413, 503),
        summary="Steps of several junctions of one run",
        tags=["prediction"],
    )
    fast.add(
        "POST",
        "/reset_hidden",
        routes.reset_hidden,
        max_body=MAX_BODY,
        counted=False,  # it is rare, and must get through when predictions crowd
        takes={"run": (Run, None), "body": (Annotated[ResetRequest | None, Body()], None)},
        response_model=ResetResponse,
        responses=_errors(400, 408, 413, 503),
        summary="A new run: zeros for every junction",
        tags=["prediction"],
    )
