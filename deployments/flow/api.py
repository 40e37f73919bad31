"""Routes of Variant B, as the contract lists them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter

from deployments.flow.schemas import Forecast, ForecastRequest, Health, ModelInfo
from deployments.flow.service import FlowService
from deployments.forecast.options import Limits
from deployments.forecast.routes import declared_errors, prediction
from deployments.http.detail_errors import render_error
from deployments.http.docs import add_docs
from deployments.http.fast_routes import FastRoutes

# A week of samples fits, a million do not.
LIMITS = Limits(max_waiting=1000, max_body=1024 * 1024)

_DESCRIPTION = """Vehicle flow at a junction in the next 15 minutes, from one-minute measurements.

Timestamps may be of any past time, as those of a simulation, but not of the future."""


def create_app(service: FlowService, limits: Limits = LIMITS) -> FastAPI:
    """Build the ASGI application around a service."""
    app = FastAPI(
        title="Flow predictor",
        version="2.0.0",
        description=_DESCRIPTION,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    add_docs(app)
    FastRoutes(app, render_error, limits.max_waiting).add(
        "POST",
        "/forecast",
        prediction(service.forecast),
        max_body=limits.max_body,
        response_model=Forecast,
        responses=declared_errors(400, 404, 408, 413, 500, 503),
        openapi_extra=_request_body(),
        summary="Flow of the next 15 minutes",
        description="Forecast a junction's mean flow; gaps and short histories lower the "
        "confidence.",
        tags=["prediction"],
    )

    @app.get("/health", tags=["status"])
    async def health() -> Health:
        """Whether a model is loaded and ready; always 200."""
        return service.health()

    @app.get("/model_info", tags=["status"])
    async def model_info() -> ModelInfo:
        """The model's version, windows, junctions and accuracy."""
        return service.model_info()

    return app


def _request_body() -> dict[str, Any]:
    schema = TypeAdapter(ForecastRequest).json_schema()
    sample = schema.pop("$defs")["Sample"]
    schema["properties"]["historical_data"]["items"] = sample
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
