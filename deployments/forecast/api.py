"""Routes of a forecast application, as the contract lists them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

from fastapi import FastAPI
from starlette.types import Scope

from deployments.forecast.service import ForecastService
from deployments.http.access_log import AccessLog
from deployments.http.docs import add_docs
from deployments.http.errors import RefusedError, declared_detail_errors, render_error
from deployments.http.fast_routes import FastRoutes
from deployments.http.messages import JSON_HEADERS, Answer, Handle
from deployments.http.probes import Probes

_HEALTH = "Return whether a model is loaded and ready, and why a swap has failed; always 200."

logger = logging.getLogger("ray.serve")

Forecast = Callable[[bytes], Awaitable[bytes]]


def prediction(forecast: Forecast) -> Handle:
    """Make the handler of a route that predicts; defects are answered as the contract says.

    Args:
        forecast: from the body of a request to the body of its answer.
    """

    @wraps(forecast)
    async def predict(scope: Scope, body: bytes) -> Answer:
        try:
            return 200, await forecast(body), JSON_HEADERS
        except RefusedError:
            raise
        except Exception as error:
            logger.exception("A forecast failed")
            raise RefusedError(f"Prediction error: {error}", 500) from error

    return predict


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
    app = FastAPI(
        title=f"{service.name.title()} predictor",
        version="2.0.0",
        description=service.description,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    add_docs(app)
    fast = FastRoutes(app, render_error, access_log=access_log)
    (probes or Probes()).add_to(fast)
    fast.add(
        "POST",
        service.path,
        prediction(service.predict),
        max_body=service.max_body,
        tags=["prediction"],
        **service.operation,
    )
    status = partial(app.get, tags=["status"])
    status("/health", response_model_exclude_none=True, description=_HEALTH)(service.health)
    status(service.info_path, description=service.info_description)(service.model_info)
    return app
