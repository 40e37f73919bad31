"""Routes of a forecast application, as the contract lists them."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI

from deployments.forecast.service import ForecastService
from deployments.http.access_log import AccessLog
from deployments.http.docs import documented_app
from deployments.http.errors import declared_detail_errors, render_error
from deployments.http.fast_routes import FastRoutes
from deployments.http.probes import Probes

_HEALTH = "Return whether a model is loaded and ready, and why a swap has failed; always 200."


def declared_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Declare the errors of an operation."""
    descriptions = {
        400: "The request is not valid",
        404: "Unknown junction",
        500: "The prediction failed",
        503: "Model not loaded, or too much load (with `Retry-After`)",
    }
    return declared_detail_errors(descriptions, *statuses)


def create_app(
    service: ForecastService[Any, Any, Any, Any],
    probes: Probes | None = None,
    access_log: AccessLog | None = None,
) -> FastAPI:
    """Build the ASGI application around a service."""
    app = documented_app(
        title=f"{service.name.title()} predictor",
        version="2.0.0",
        description=service.description,
        redirect_slashes=False,
    )
    fast = FastRoutes(app, render_error, access_log=access_log)
    (probes or Probes()).add_to(fast)
    fast.add(
        "POST",
        service.path,
        service.predict,
        max_body=service.max_body,
        tags=["prediction"],
        **service.operation,
    )
    status = partial(app.get, tags=["status"])
    status("/health", response_model_exclude_none=True, description=_HEALTH)(service.health)
    status(service.info_path, description=service.info_description)(service.model_info)
    return app
