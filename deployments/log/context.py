"""What a line is about, and which trace it belongs to: :func:`trace_id` alone knows that."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar

from deployments.trace_context import CURRENT, NOT_TRACED, RAW_HEADER, sender_of

REQUEST_ID_HEADER = b"x-request-id"

_NOT_TRACED = NOT_TRACED.encode()

request_headers: ContextVar[Iterable[tuple[bytes, bytes]]] = ContextVar(
    "request_headers", default=()
)
"""Of the request at work, as ASGI has them; they are not looked at before a line is written."""


def about(**context: str | None) -> dict[str, dict[str, str]]:
    """Return what a line is about, as the ``extra`` of a logger's method."""
    return {"about": {name: value for name, value in context.items() if value is not None}}


def trace_id() -> str | None:
    """Return the id of the trace that is recorded here, or else of the client's, in hexadecimal."""
    trace = CURRENT.get()
    if trace is None:
        sent = _sent(RAW_HEADER) or b""
        sender = sender_of(sent.decode("latin-1")) if sent != _NOT_TRACED else None
        trace = sender and sender.trace
    return f"{trace.trace_id:032x}" if trace else None


def request_id() -> str | None:
    """Return the id that the request at work came with."""
    sent = _sent(REQUEST_ID_HEADER)
    return None if sent is None else sent.decode("latin-1")


def _sent(header: bytes) -> bytes | None:
    return next((value for name, value in request_headers.get() if name == header), None)
