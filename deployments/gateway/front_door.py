"""What every request passes first: a bound on the load, and the shortest way to a decision.

POST /traffic/action carries nearly all of the load, so this middleware answers it as plain ASGI;
FastAPI declares the route for the OpenAPI document and for wrong methods.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.gateway.errors import GatewayError, UnavailableError, error_body
from deployments.gateway.service import GatewayService
from deployments.http.errors import BodyTooLargeError, BodyTooSlowError
from deployments.http.request import header, read_body
from deployments.http.run_id import RAW_RUN_HEADER

logger = logging.getLogger("ray.serve")

MAX_BODY = 64 * 1024
REQUEST_ID_HEADER = b"x-request-id"

_ACTION_PATH = "/traffic/action"
_JSON_HEADER = (b"content-type", b"application/json")
_NO_HEADERS: Mapping[str, str] = {}

Answer = tuple[int, bytes, Mapping[str, str]]


class FrontDoor:
    """ASGI middleware.

    Args:
        app: everything but POST /traffic/action.
        service: where decisions come from.
        max_waiting: requests in work at once; one more is refused with 503.
    """

    def __init__(self, app: ASGIApp, service: GatewayService, max_waiting: int) -> None:
        self._app = app
        self._service = service
        self._max_waiting = max_waiting
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._waiting >= self._max_waiting:
            await _respond(send, answer_of(UnavailableError("Too many requests are waiting")))
            return
        self._waiting += 1
        try:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if path == _ACTION_PATH and scope["method"] == "POST":
                await _respond(send, await self._act(scope, receive))
            else:
                await self._app(scope, receive, send)
        finally:
            self._waiting -= 1

    async def _act(self, scope: Scope, receive: Receive) -> Answer:
        try:
            self._service.tokens.authenticate(header(scope, b"authorization"))
            body = await read_body(receive, MAX_BODY)
            run, request_id = header(scope, RAW_RUN_HEADER), header(scope, REQUEST_ID_HEADER)
            response = await self._service.act(body, run, request_id)
            return 200, response.__pydantic_serializer__.to_json(response), _NO_HEADERS
        except Exception as error:
            return answer_of(error)


def answer_of(error: Exception) -> Answer:
    """The answer that tells of an error, and nothing of the gateway's inside."""
    match error:
        case GatewayError():
            status, message, headers = error.status, str(error), error.headers
        case BodyTooLargeError():
            status, message, headers = 413, str(error), _NO_HEADERS
        case BodyTooSlowError():
            status, headers = 408, _NO_HEADERS
            message = "The request body did not arrive in time"
        case _:
            logger.error("A request failed", exc_info=error)
            status, message, headers = 500, "Internal server error", _NO_HEADERS
    return status, json.dumps(error_body(message)).encode(), headers


async def _respond(send: Send, answer: Answer) -> None:
    status, body, headers = answer
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    raw += (_JSON_HEADER, (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
