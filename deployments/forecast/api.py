"""Routes of a forecast application, as the contract lists them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from deployments.forecast.options import ForecastOptions
from deployments.forecast.routes import prediction
from deployments.forecast.service import ForecastService
from deployments.forecast.variant import Variant
from deployments.http.access_log import AccessLog
from deployments.http.detail_errors import render_error
from deployments.http.docs import add_docs
from deployments.http.fast_routes import FastRoutes
from deployments.http.probes import Probes


def create_app(
    variant: Variant,
    service: ForecastService[Any, Any, Any, Any],
    options: ForecastOptions,
    probes: Probes | None = None,
    access_log: AccessLog | None = None,
) -> FastAPI:
    """Build the ASGI application around a service of the variant."""
    app = FastAPI(
        title=f"{variant.name.title()} predictor",
        version="2.0.0",
        description=variant.description,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    add_docs(app)
    fast = FastRoutes(app, render_error, options.max_waiting, access_log=access_log)
    (probes or Probes()).add_to(fast)
    fast.add(
        "POST",
        variant.path,
        prediction(service.predict),
        max_body=options.max_body,
        tags=["prediction"],
        **variant.operation,
    )

    @app.get(
        "/health",
        response_model=variant.health,
        response_model_exclude_none=True,
        tags=["status"],
    )
    async def health() -> BaseModel:
        """Tell whether a model is loaded and ready, and of a swap that failed; always 200."""
        return service.health()

    @app.get(
        variant.info_path,
        response_model=variant.info,
        description=variant.info_description,
        tags=["status"],
    )
    async def model_info() -> BaseModel:
        return service.model_info()

    return app
