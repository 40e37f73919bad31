"""Server-sent events over ASGI, with an end for who does not read them.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.types import Receive, Send

from deployments.http.errors import RefusedError

logger = logging.getLogger("ray.serve")

RETRY_MS = 1000
HEARTBEAT_S = 3.0  # below the 8 s after which the edge takes a silent service for dead
SEND_S = 5.0
STREAM_S = 30.0

NextEvent = Callable[[], Coroutine[Any, Any, bytes]]

_HEARTBEAT = b": \n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class UnreadError(Exception):
    """The client takes nothing any more."""


async def write_events(receive: Receive, send: Send, following: NextEvent) -> None:
    """Send events until the client goes, does not read, or has had its time.

    A stream lasts STREAM_S; the page then asks for the next one. So a replica that is to stop is
    left by all soon, a token that has expired is asked for again, and what proxies hold is bounded.

    Args:
        following: returns the next event; one that refuses to, ends the stream.
    """
    try:
        await _send(send, {"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _send(send, _part(b"retry: %d\n\n" % RETRY_MS))
        with contextlib.suppress(TimeoutError, RefusedError):
            async with asyncio.timeout(STREAM_S) as stream:
                leaving = asyncio.create_task(_end_when_gone(receive, stream))
                try:
                    while True:
                        await _send(send, _part(await _next(following)))
                finally:
                    leaving.cancel()
        await _send(send, {"type": "http.response.body", "body": b""})
    except (UnreadError, OSError):
        logger.info("A console that does not read was closed")


async def _next(following: NextEvent) -> bytes:
    try:
        async with asyncio.timeout(HEARTBEAT_S):
            return await following()
    except TimeoutError:
        return _HEARTBEAT


async def _send(send: Send, message: dict[str, object]) -> None:
    try:
        async with asyncio.timeout(SEND_S):
            await send(message)
    except TimeoutError:
        raise UnreadError from None


def _part(body: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _end_when_gone(receive: Receive, stream: asyncio.Timeout) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.reschedule(asyncio.get_running_loop().time())
