"""What the gateway's routes do with a request, and how its errors look."""

from __future__ import annotations

import json
import logging

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.gateway.errors import UnauthorizedError, error_body
from deployments.gateway.service import GatewayService
from deployments.http.errors import RefusedError
from deployments.http.fast_routes import JSON, JSON_HEADERS, Answer
from deployments.http.names import RAW_KEY_HEADER, RAW_RUN_HEADER
from deployments.http.request import header

logger = logging.getLogger("ray.serve")

REQUEST_ID_HEADER = b"x-request-id"


def render_error(scope: Scope, error: Exception) -> Answer:
    """Render an error in the gateway's one form, and tell nothing of its inside."""
    headers = [JSON]
    match error:
        case RefusedError():
            status, message = error.status, str(error)
            if error.retry_after_s is not None:
                headers.append((b"retry-after", b"%d" % error.retry_after_s))
            if isinstance(error, UnauthorizedError):
                headers.append((b"www-authenticate", b"Bearer"))
        case HTTPException():
            status, message = error.status_code, error.detail
        case _:
            logger.error("A request failed", exc_info=error)
            status, message = 500, "Internal server error"
    return status, json.dumps(error_body(message)).encode(), headers


class Routes:
    """Handlers around a service. Their docstrings stand in the OpenAPI document.

    Args:
        trust_forwarded_for: take a client's address from X-Forwarded-For, as the edge sets it.
    """

    def __init__(self, service: GatewayService, trust_forwarded_for: bool) -> None:
        self._service = service
        self._trust_forwarded_for = trust_forwarded_for

    def authenticate(self, scope: Scope) -> None:
        """Check the token, before anything else of a request is looked at.

        Raises:
            UnauthorizedError: there is no token, or it is not valid now.
        """
        self._service.tokens.authenticate(header(scope, b"authorization"))

    async def login(self, scope: Scope, body: bytes) -> Answer:
        """Exchange user name and password for an access token."""
        return _success(await self._service.login(body, self._address(scope)))

    async def demo(self, scope: Scope, body: bytes) -> Answer:
        """Decide for a random junction with made-up observations."""
        run, request_id = header(scope, RAW_RUN_HEADER), header(scope, REQUEST_ID_HEADER)
        return _success(await self._service.demo(run, request_id))

    async def act(self, scope: Scope, body: bytes) -> Answer:
        """Choose the signal of a junction from its observations.

        When the inference service does not answer in time, the answer is RED with the status
        `fallback_mode (inference service down)`; a step that was late may still have been made.
        A request that is repeated with its `Idempotency-Key` gets that step's decision.
        """
        run, request_id = header(scope, RAW_RUN_HEADER), header(scope, REQUEST_ID_HEADER)
        key = header(scope, RAW_KEY_HEADER)
        return _success(await self._service.act(body, run, key, request_id))

    async def reset(self, scope: Scope, body: bytes) -> Answer:
        """Clear the hidden states of all junctions."""
        run, request_id = header(scope, RAW_RUN_HEADER), header(scope, REQUEST_ID_HEADER)
        return _success(await self._service.reset(run, request_id))

    def _address(self, scope: Scope) -> str:
        forwarded = header(scope, b"x-forwarded-for") if self._trust_forwarded_for else None
        if forwarded:
            return forwarded.rpartition(",")[2].strip()  # what the nearest proxy has seen
        client = scope.get("client")
        return str(client[0]) if client else "unknown"


def _success(response: BaseModel) -> Answer:
    return 200, response.__pydantic_serializer__.to_json(response), JSON_HEADERS
