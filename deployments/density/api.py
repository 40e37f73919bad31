"""Routes of Variant A, as the contract lists them."""

from __future__ import annotations

from fastapi import FastAPI

from deployments.density.schemas import PREDICTION_REQUEST, Health, ModelInfo, Prediction
from deployments.density.service import DensityService
from deployments.forecast.options import Limits
from deployments.forecast.routes import declared_errors, prediction
from deployments.http.detail_errors import render_error
from deployments.http.docs import add_docs
from deployments.http.fast_routes import FastRoutes

LIMITS = Limits(max_waiting=1000, max_body=64 * 1024)

_DESCRIPTION = (
    "Traffic density of five road edges in the next hour, from three hourly measurements."
)


def create_app(service: DensityService, limits: Limits = LIMITS) -> FastAPI:
    """Build the ASGI application around a service."""
    app = FastAPI(
        title="Density predictor",
        version="2.0.0",
        description=_DESCRIPTION,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    add_docs(app)
    FastRoutes(app, render_error, limits.max_waiting).add(
        "POST",
        "/predict",
        prediction(service.predict),
        max_body=limits.max_body,
        response_model=Prediction,
        responses=declared_errors(400, 408, 413, 500, 503),
        openapi_extra=PREDICTION_REQUEST,
        summary="Density of the next hour",
        description="Forecast the next hour of five edges from their last three hours.",
        tags=["prediction"],
    )

    @app.get("/health", tags=["status"])
    async def health() -> Health:
        """Whether a model is loaded and ready; always 200."""
        return service.health()

    @app.get("/model-info", tags=["status"])
    async def model_info() -> ModelInfo:
        """The model's shapes, edges, and errors on held-out days."""
        return service.model_info()

    return app
