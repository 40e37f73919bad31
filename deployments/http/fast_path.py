"""The fast path: requests of fast routes bypass Serve's wrapper in a replica's HTTP server.

Serve wraps each request in two tasks, three contexts, metadata and a log line, and finds its route
by regular expressions. That takes longer than a step of the policy. So a connection hands a request
of a fast route straight to its handler, and writes the response in one piece. All other requests
pass Serve's wrapper.

Serve is notified of the requests on the fast path. As with Serve, a request is cancelled when its
client disconnects.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from deployments.http.fast_routes import FastRoutes, Route
from deployments.http.messages import Headers
from deployments.log import REQUEST_ID_HEADER, logger, request_headers

_PREFIX_OF_IDS = str(uuid.uuid4())[:-12].encode()  # with 2^48 ids for each process
_LAST_OF_IDS = (1 << 48) - 1
_numbers = itertools.count(random.getrandbits(48))


class ReplicaStats(Protocol):
    """What Serve needs to know of the requests on the fast path.

    Attributes:
        own_headers: of requests that need Serve's wrapper.
    """

    own_headers: frozenset[bytes]

    @property
    def prefix(self) -> str:
        """Route prefix of the application; it may change."""

    def began(self) -> None: ...

    def ended(self, route: str, seconds: float, failure: str | None) -> None: ...


def fast_path_protocol(app: FastAPI) -> Callable[[ReplicaStats], Callable[..., asyncio.Protocol]]:
    """Return a factory of uvicorn's connections that serve an app's fast routes."""
    fast: FastRoutes = app.state.fast_routes
    return lambda stats: partial(Connection, fast, stats)


class Connection(HttpToolsProtocol):
    """A connection to a client, with the fast path.

    Args:
        fast: the fast routes.
        stats: notified of every request on the fast path.
        of_uvicorn: uvicorn's own arguments.
    """

    def __init__(self, fast: FastRoutes, stats: ReplicaStats, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._fast = fast
        self._stats = stats
        self._handling: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._handling is not None:
            self._handling.cancel()

    def _should_upgrade(self) -> bool:
        return False  # no service has WebSockets

    def _unsupported_upgrade_warning(self) -> None:
        # The parser leaves out the body of a request that asks for an upgrade, and would read
        # later parts of it as further requests. So its response is the connection's last.
        self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        routed = self._route_request(cycle.scope)
        if routed is None:
            super()._start_asgi_task(cycle, app)
            return
        task = self._handling = self.loop.create_task(self._handle(cycle, *routed, perf_counter()))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _route_request(self, scope: Any) -> tuple[Route, bytes] | None:
        """Return the route of a request on the fast path, and its id in the logs."""
        root, path = scope["root_path"] + self._stats.prefix, scope["path"]
        if not path.startswith(root):
            return None
        if self._fast.whole_paths:
            root = ""
        route = self._fast.route_of(scope["method"], path.removeprefix(root))
        if route is None:
            return None
        request_id = None
        for name, value in scope["headers"]:
            if name == REQUEST_ID_HEADER:
                request_id = value
            elif name in self._stats.own_headers:
                return None
        if request_id is None:
            request_id = b"%s%012x" % (_PREFIX_OF_IDS, next(_numbers) & _LAST_OF_IDS)
            scope["headers"].append((REQUEST_ID_HEADER, request_id))
        scope["root_path"] = root
        return route, request_id

    async def _handle(
        self, cycle: RequestResponseCycle, route: Route, request_id: bytes, arrived_s: float
    ) -> None:
        scope: Any = cycle.scope
        receive: Any = cycle.receive
        request_headers.set(scope["headers"])
        # a request that came in one piece is complete before this task begins
        is_whole = not (cycle.more_body or cycle.waiting_for_100_continue)

        async def send(status: int, body: bytes, headers: Headers) -> None:
            if self.flow.write_paused:
                await self.flow.drain()
            self._write(cycle, status, body, headers, request_id)

        failure: str | None = "CancelledError"
        self._stats.began()
        try:
            body = bytes(cycle.body) if is_whole else None
            await self._fast.answer(route, scope, receive, send, body, arrived_s)
            failure = None
        except Exception as error:
            failure = type(error).__name__
            logger.exception("A request failed")
        finally:
            self._stats.ended(scope["path"], perf_counter() - arrived_s, failure)
            if not cycle.response_complete:
                self.transport.close()

    def _write(
        self,
        cycle: RequestResponseCycle,
        status: int,
        body: bytes,
        headers: Headers,
        request_id: bytes,
    ) -> None:
        if cycle.disconnected:
            return
        head = [STATUS_LINE[status]]
        for name, value in (*self.server_state.default_headers, *headers):
            head += (name, b": ", value, b"\r\n")
        head += (REQUEST_ID_HEADER, b": ", request_id, b"\r\n")
        if not cycle.keep_alive:
            head.append(b"connection: close\r\n")
        head.append(b"content-length: %d\r\n\r\n" % len(body))
        head.append(body)
        self.transport.write(b"".join(head))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
