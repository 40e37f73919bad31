"""Open consoles, and their server-sent events over ASGI.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Send

from deployments.console.view import Mark, View
from deployments.http.errors import RefusedError
from deployments.log import logger


@dataclass(eq=False)
class Client:
    """An open console.

    Attributes:
        run: to show; None for an active one.
        fresh: whether it has received nothing yet.
        events: the next event, if there is one.
    """

    run: str | None
    fresh: bool = True
    events: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(1))


class Audience:
    """All open consoles.

    Args:
        most: that may be open at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: set[Client] = set()
        self._shown = Mark()

    def __len__(self) -> int:
        return len(self._clients)

    @contextmanager
    def member(self, run: str | None) -> Iterator[Client]:
        """Open a console, while the context is entered.

        Raises:
            RefusedError: too many are open.
        """
        if len(self._clients) >= self._most:
            why = f"{self._most} consoles are open; close one, or wait"
            raise RefusedError(why, 503, "overloaded", 5)
        client = Client(run)
        self._clients.add(client)
        try:
            yield client
        finally:
            self._clients.discard(client)

    def runs(self, view: View, now: float) -> list[str]:
        """Return the runs that are shown."""
        chosen = {client.run or view.runs.followed(now) for client in self._clients}
        return sorted(run for run in chosen if run)

    def show(self, view: View, at_ms: int, now: float) -> None:
        """Offer each console the news; a fresh one, or one that is behind, the whole state."""
        events: dict[tuple[str | None, bool], bytes] = {}
        for client in self._clients:
            is_behind = client.events.full()
            is_whole = client.fresh or is_behind
            kind = (client.run, is_whole)
            if kind not in events:
                since = Mark() if is_whole else self._shown
                events[kind] = view.event(client.run, since, at_ms, now)
            if is_behind:
                client.events.get_nowait()
            client.events.put_nowait(events[kind])
            client.fresh = False
        self._shown = view.mark


RETRY_MS = 1000
SEND_S = 5.0
STREAM_S = 30.0

NextEvent = Callable[[], Coroutine[Any, Any, bytes]]

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class UnreadError(Exception):
    """The client has stopped reading."""


async def write_events(receive: Receive, send: Send, following: NextEvent) -> None:
    """Send events until the client disconnects or stops reading, for STREAM_S at most.

    The page then requests the next stream. So a stopping replica drains soon, expired tokens are
    noticed, and buffers of proxies are bounded.

    Args:
        following: returns the next event; a refusal ends the stream.
    """
    try:
        await _send(send, {"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _send(send, _part(b"retry: %d\n\n" % RETRY_MS))
        with contextlib.suppress(TimeoutError, RefusedError):
            async with asyncio.timeout(STREAM_S) as stream:
                leaving = asyncio.create_task(_end_when_gone(receive, stream))
                try:
                    while True:
                        await _send(send, _part(await following()))
                finally:
                    leaving.cancel()
        await _send(send, {"type": "http.response.body", "body": b""})
    except (UnreadError, OSError):
        logger.info("A console that does not read was closed")


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
