"""Requests as parts of traces."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from starlette.types import Scope

from deployments.http.answers import Headers, SendAnswer
from deployments.http.request import header
from deployments.trace_context import RAW_HEADER
from deployments.tracing import process as tracing

ARRIVAL_HEADER = b"x-request-start"
"""When the edge got the request, in microseconds since 1970."""

_microseconds = re.compile("[0-9]{16}").fullmatch

Covering = AbstractContextManager[Any]


def covering(scope: Scope) -> Covering | None:
    """Return what covers the answer to a request, or None when it is not traced."""
    if not tracing.is_on():
        return None
    senders = tracing.sample(header(scope, RAW_HEADER))
    if senders is None:
        return None
    arrived = _microseconds(header(scope, ARRIVAL_HEADER) or "")
    name = f"{scope['method']} {scope['path']}"
    return tracing.of_request(name, senders, int(arrived[0]) / 1e6 if arrived else None)


def noting_the_status(span: Any, send: SendAnswer) -> SendAnswer:
    """Return a ``send`` that notes an answer's status in its span."""

    async def noting(status: int, body: bytes, headers: Headers) -> None:
        span.set_attribute("http.response.status_code", status)
        await send(status, body, headers)

    return noting
