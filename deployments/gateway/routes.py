"""Handlers of the gateway's routes, and its form of errors."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Scope

from deployments.access.keys import public_keys
from deployments.gateway.errors import BadRequestError, UnavailableError
from deployments.gateway.service import GatewayService, Names
from deployments.http.errors import describe_error
from deployments.http.messages import (
    DEFAULT_RUN,
    JSON_HEADERS,
    NOT_A_KEY,
    NOT_A_RUN_ID,
    RAW_KEY_HEADER,
    RAW_RUN_HEADER,
    RUN_HEADER,
    Answer,
    is_name,
    now_ms,
)
from deployments.http.request import client_address, header
from deployments.log import REQUEST_ID_HEADER

_REQUEST_ID = re.compile(r"[!-~]{1,128}")
_NOTHING = (b"", b"{}", b"null")
_TAKES_NOTHING = f"A reset takes no query and no body. Name the run in the header {RUN_HEADER}"
# shorter than a new key is shown before it signs (`greenwave keys rotate --after`)
_KEYS_HEADERS = [*JSON_HEADERS, (b"cache-control", b"public, max-age=15")]


def render_error(scope: Scope, error: Exception) -> Answer:
    """Render an error in the gateway's one form."""
    status, message, headers = describe_error(error, "Internal server error")
    body = {"status": "error", "message": message, "timestamp": now_ms()}
    return status, json.dumps(body).encode(), headers


class Routes:
    """Handlers around a service. Their docstrings are those of the OpenAPI document."""

    def __init__(self, service: GatewayService) -> None:
        self._service = service

    async def login(self, scope: Scope, body: bytes) -> Answer:
        """Exchange user name and password for an access token."""
        status, grant, headers = _success(await self._service.login(body, client_address(scope)))
        return status, grant, [*headers, (b"cache-control", b"no-store")]  # RFC 6749, section 5.1

    async def keys(self, scope: Scope, body: bytes) -> Answer:
        """Show the public keys that tokens are verified with, as a JWK Set (RFC 7517).

        There are none while the tokens are signed with a shared secret, as they are by default.
        """
        return 200, public_keys(self._service.access.tokens.keys, time.time()), _KEYS_HEADERS

    async def demo(self, scope: Scope, body: bytes) -> Answer:
        """Decide for a random junction with made-up observations.

        A request that is repeated with its `Idempotency-Key` gets the same junction and decision.
        """
        return _success(await self._service.demo(_names(scope)))

    async def act(self, scope: Scope, body: bytes) -> Answer:
        """Choose the signal of a junction from its observations.

        When the inference service does not answer in time, the answer is the fallback, with the
        status `fallback_mode (inference service down)`: RED, or what a fixed-time plan says. A step
        that was late may still have been made.
        A request that is repeated with its `Idempotency-Key` gets that step's decision.
        """
        return _success(await self._service.act(body, _names(scope)))

    async def reset(self, scope: Scope, body: bytes) -> Answer:
        """Clear the hidden states of all junctions.

        A request that is repeated with its `Idempotency-Key` clears nothing more.
        """
        if scope["query_string"] or b"".join(body.split()) not in _NOTHING:
            raise BadRequestError(_TAKES_NOTHING)
        names, access = _names(scope), self._service.access
        who, where = access.authenticate(scope, "reset").subject, client_address(scope)
        detail = f"run {names.run or DEFAULT_RUN}"
        try:
            answer = await self._service.reset(names)
        except UnavailableError:
            access.audit.note("reset", who, where, f"{detail}, not confirmed")
            raise
        access.audit.note("reset", who, where, detail)
        return _success(answer)


def _names(scope: Scope) -> Names:
    run, key = header(scope, RAW_RUN_HEADER), header(scope, RAW_KEY_HEADER)
    for name, refusal in ((run, NOT_A_RUN_ID), (key, NOT_A_KEY)):
        if name is not None and not is_name(name):
            raise BadRequestError(refusal)
    request_id = header(scope, REQUEST_ID_HEADER)
    if request_id is not None and not _REQUEST_ID.fullmatch(request_id):
        request_id = None
    return Names(run, key or os.urandom(12).hex(), request_id)


def _success(response: BaseModel | dict[str, Any]) -> Answer:
    return 200, to_json(response), JSON_HEADERS
