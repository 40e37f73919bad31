"""One POST route as plain ASGI, in front of FastAPI.

It carries all of the load, and FastAPI's per-request work costs several times the forecast. So it
hands the body's bytes to the service and writes the answer's bytes directly. FastAPI still declares
the route, for the OpenAPI document and for wrong methods.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.forecast.errors import ForecastError, OverloadedError, PredictionFailedError
from deployments.http.request import BodyTooLargeError, read_body

logger = logging.getLogger("ray.serve")

Forecast = Callable[[bytes], Awaitable[bytes]]


class Limits(NamedTuple):
    """Bounds of one replica.

    Attributes:
        max_waiting: requests at work at once; more are refused with 503, so that no queue grows.
        max_body: bytes of a request.
    """

    max_waiting: int
    max_body: int


class ForecastFastPath:
    """ASGI middleware that answers one route itself.

    Args:
        app: everything else.
        path: of the route, below the application's prefix.
        forecast: from the body of a request to the body of its answer.
    """

    def __init__(self, app: ASGIApp, path: str, forecast: Forecast, limits: Limits) -> None:
        self._app = app
        self._path = path
        self._forecast = forecast
        self._limits = limits
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or scope["method"] != "POST"
            or scope["path"].removeprefix(scope.get("root_path", "")) != self._path
        ):
            await self._app(scope, receive, send)
            return
        status, body, headers = await self._answer(receive)
        headers += [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        start: Message = {"type": "http.response.start", "status": status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, receive: Receive) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        if self._waiting >= self._limits.max_waiting:
            return _refusal(OverloadedError())
        self._waiting += 1
        try:
            return 200, await self._forecast(await read_body(receive, self._limits.max_body)), []
        except ForecastError as error:
            return _refusal(error)
        except BodyTooLargeError as error:
            return 413, _detail(str(error)), []
        except TimeoutError:
            return 408, _detail("The request body did not arrive in time"), []
        except Exception as error:
            logger.exception("A forecast failed")
            return _refusal(PredictionFailedError(error))
        finally:
            self._waiting -= 1


def _refusal(error: ForecastError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    headers = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    return error.status, _detail(str(error)), headers


def _detail(text: str) -> bytes:
    return json.dumps({"detail": text}).encode()


def declared_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document: every error body is an object with one string."""
    descriptions = {
        400: "The request is not valid",
        404: "Unknown junction",
        408: "The request body did not arrive in time",
        413: "The request body is too large",
        500: "The prediction failed",
        503: "Model not loaded, or too much load (with `Retry-After`)",
    }
    schema = {
        "type": "object",
        "properties": {"detail": {"type": "string"}},
        "required": ["detail"],
    }
    content = {"application/json": {"schema": schema}}
    return {s: {"description": descriptions[s], "content": content} for s in statuses}


def answer_defects_in_json(app: FastAPI) -> None:
    """A defect in a status route is answered in JSON as well."""

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": "Internal Server Error"}, 500)
