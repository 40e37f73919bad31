"""Routes of the inference service, as the contract lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse

from deployments.http.docs import add_docs
from deployments.http.run_id import Run
from deployments.inference.fast_path import FastPath
from deployments.inference.options import InferenceOptions
from deployments.inference.schemas import (
    BatchRequest,
    BatchResponse,
    ErrorBody,
    Health,
    ModelInfo,
    Prediction,
    PredictionRequest,
    ResetRequest,
    ResetResponse,
)
from deployments.inference.service import InferenceService

MAX_BODY = (64 * 1024, 2 * 1024 * 1024)  # bytes: one prediction; a thousand of them

_LANDING_PAGE = Path(__file__).with_name("landing.html")
_DESCRIPTION = """One trained multi-agent recurrent policy that controls five road junctions.
Each junction has a hidden state per simulation run, kept between calls."""


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    descriptions = {
        400: "Too many values, or an invalid run id",
        404: "Unknown junction",
        408: "The request body did not arrive in time",
        413: "The request body is too large",
        503: "Model not loaded, or too much load (with `Retry-After`)",
    }
    return {s: {"model": ErrorBody, "description": descriptions[s]} for s in statuses}


def create_app(service: InferenceService, options: InferenceOptions) -> FastAPI:
    """Build the ASGI application around a service."""
    app = FastAPI(
        title="Inference service",
        version="2.0.0",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(
        FastPath, service=service, max_waiting=options.max_waiting, max_body=MAX_BODY
    )
    add_docs(app)
    _add_error_handler(app)
    landing_page = _LANDING_PAGE.read_text(encoding="utf-8")

    @app.post(
        "/predict_action",
        response_model=Prediction,
        responses=_errors(400, 404, 408, 413, 503),
        summary="One step of one junction",
        tags=["prediction"],
    )
    async def predict_action(request: PredictionRequest, run: Run = None) -> None:
        """Choose an action for a junction and advance its hidden state by one step."""
        raise NotImplementedError("FastPath answers this route")

    @app.post(
        "/predict_actions",
        response_model=BatchResponse,
        responses=_errors(400, 408, 413, 503),
        summary="Steps of several junctions of one run",
        tags=["prediction"],
    )
    async def predict_actions(request: BatchRequest, run: Run = None) -> None:
        """Answer 1 to 1,000 items in their order; an item that is wrong spoils no other."""
        raise NotImplementedError("FastPath answers this route")

    @app.post(
        "/reset_hidden",
        response_model=ResetResponse,
        responses=_errors(400, 408, 413, 503),
        summary="A new run: zeros for every junction",
        tags=["prediction"],
    )
    async def reset_hidden(
        run: Run = None, body: Annotated[ResetRequest | None, Body()] = None
    ) -> None:
        """Clear the hidden states of a run: its later predictions start from zeros."""
        raise NotImplementedError("FastPath answers this route")

    @app.get("/health", response_model_exclude_none=True, tags=["status"])
    async def health() -> Health:
        """Whether a model is loaded and ready; always 200."""
        return service.health()

    @app.get("/model_info", tags=["status"])
    async def model_info() -> ModelInfo:
        """The network's sizes and the junction table."""
        return service.model_info()

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def landing() -> str:
        return landing_page

    return app


def _add_error_handler(app: FastAPI) -> None:
    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": "Internal Server Error"}, 500)
