"""Reads ASGI requests: a header, and a body within bounds of size and time."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope

from deployments.http.errors import BodyTooLargeError, BodyTooSlowError

BODY_TIMEOUT_S = 10.0


def header(scope: Scope, name: bytes) -> str | None:
    """Return a header by its name in lower case.

    Different values of one name are joined by commas (RFC 9110, 5.3): no one of them may count
    for both.
    """
    values = [value for key, value in scope["headers"] if key == name]
    if not values:
        return None
    if len(values) > 1:
        values = [b", ".join(dict.fromkeys(values))]
    return str(values[0], "latin-1")


async def read_body(receive: Receive, limit: int) -> bytes:
    """Read the whole body.

    Raises:
        BodyTooLargeError: it is longer than ``limit`` bytes; the rest is not read.
        BodyTooSlowError: it did not arrive in BODY_TIMEOUT_S seconds.
        asyncio.CancelledError: the client has gone.
    """
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise asyncio.CancelledError
                chunk: bytes = message.get("body", b"")
                size += len(chunk)
                if size > limit:
                    raise BodyTooLargeError(limit)
                if not message.get("more_body", False):
                    return b"".join(chunks) + chunk if chunks else chunk
                chunks.append(chunk)
    except TimeoutError:
        raise BodyTooSlowError from None
