"""What the routes of both forecasts share."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Scope

from deployments.forecast.errors import PredictionFailedError
from deployments.http.answers import JSON_HEADERS, Answer, Handle
from deployments.http.detail_errors import declared_detail_errors
from deployments.http.errors import RefusedError

logger = logging.getLogger("ray.serve")

Forecast = Callable[[bytes], Awaitable[bytes]]


def prediction(forecast: Forecast) -> Handle:
    """Make the handler of a route that predicts; a defect in there is told as the contract says.

    Args:
        forecast: from the body of a request to the body of its answer.
    """

    @functools.wraps(forecast)
    async def predict(scope: Scope, body: bytes) -> Answer:
        try:
            return 200, await forecast(body), JSON_HEADERS
        except RefusedError:
            raise
        except Exception as error:
            logger.exception("A forecast failed")
            raise PredictionFailedError(error) from error

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
