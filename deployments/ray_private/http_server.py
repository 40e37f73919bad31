"""Private API of the HTTP server that Serve runs in a replica."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

from ray.serve._private import replica as serve_replica
from ray.serve._private.common import RequestMetadata
from ray.serve._private.constants import (
    SERVE_HTTP_REQUEST_DISCONNECT_DISABLED_HEADER,
    SERVE_HTTP_REQUEST_TIMEOUT_S_HEADER,
)

ACCEPTED_AT_ONCE = 32
TICK_S = 0.5
BACKLOG = 2048  # as uvicorn's: the last call sets it for all copies

logger = logging.getLogger("ray.serve")


class ReplicaStats:
    """Notifies Serve's replica of requests that bypass its wrapper.

    Serve needs their number for draining, autoscaling and metrics.

    Attributes:
        own_headers: of requests that need the wrapper.
    """

    own_headers = frozenset(
        name.encode()
        for name in (
            SERVE_HTTP_REQUEST_DISCONNECT_DISABLED_HEADER,
            SERVE_HTTP_REQUEST_TIMEOUT_S_HEADER,
        )
    )

    def __init__(self, replica: Any) -> None:
        self._replica = replica
        self._metrics = replica._metrics_manager
        self._request = RequestMetadata("", "", is_direct_ingress=True)

    @property
    def prefix(self) -> str:
        """Route prefix of the application; it may change while a replica runs."""
        prefix: str = self._replica._route_prefix or ""
        return "" if prefix == "/" else prefix

    def began(self) -> None:
        self._metrics.inc_num_ongoing_requests(self._request)

    def ended(self, route: str, seconds: float, failure: str | None) -> None:
        """Note the end of a request.

        Args:
            failure: name of the exception that ended it.
        """
        self._metrics.dec_num_ongoing_requests(self._request)
        self._metrics.record_request_metrics(
            route=route,
            latency_ms=seconds * 1000,
            is_error=failure is not None,
            exception_type=failure,
        )


MakeProtocol = Callable[..., asyncio.Protocol]


def install_protocol(protocol: Callable[[ReplicaStats], MakeProtocol]) -> None:
    """Install a protocol in this replica's HTTP server, before it starts.

    The server stays as it is if Serve's configuration needs the wrapper.

    Args:
        protocol: returns uvicorn's factory of connections.
    """
    start = serve_replica.start_asgi_http_server

    async def start_speaking(app: Any, http_options: Any, *args: Any, **kwargs: Any) -> Any:
        task, server = await start(app, http_options, *args, **kwargs)
        replica = app.__self__
        reason = _needs_wrapper(replica, http_options)
        server.main_loop = functools.partial(tick, server)
        server.accepting_more = asyncio.create_task(accept_more(server))  # keeps a reference
        if reason is None:
            server.config.http = protocol(ReplicaStats(replica))
            logger.info("Requests of fast routes pass Serve's wrapper by")
        else:
            logger.info("Every request passes Serve's wrapper, because %s", reason)
        return task, server

    serve_replica.start_asgi_http_server = start_speaking


async def tick(server: Any) -> None:
    """Run uvicorn's main loop five times as slowly.

    It wakes ten times a second. The first tick, as each tenth one, renews the header Date.
    """
    while not await server.on_tick(0):
        await asyncio.sleep(TICK_S)


async def accept_more(server: Any) -> None:
    """Let uvicorn's server, once it has started, accept several connections in a turn.

    uvloop accepts one connection per listener in each turn of the event loop (libuv since 1.45).
    Under load, when turns are long, clients waited for seconds. Copies of the listener accept one
    each.
    """
    while not server.started:
        await asyncio.sleep(0.01)
    if server.config.ssl:
        return
    loop = asyncio.get_running_loop()

    def connection() -> asyncio.Protocol:
        made: asyncio.Protocol = server.config.http_protocol_class(
            config=server.config,
            server_state=server.server_state,
            app_state=server.lifespan.state,
            _loop=loop,
        )
        return made

    (listener,) = server.servers[0].sockets
    for _ in range(ACCEPTED_AT_ONCE - 1):
        copy = socket.socket(fileno=os.dup(listener.fileno()))
        server.servers.append(await loop.create_server(connection, sock=copy, backlog=BACKLOG))


def _needs_wrapper(replica: Any, http_options: Any) -> str | None:
    if http_options.request_timeout_s is not None:
        return "http_options.request_timeout_s is set"
    if http_options.middlewares:
        return "http_options.middlewares are set"
    if replica._deployment_config.logging_config.get("enable_access_log", True):
        return "enable_access_log is on"
    if replica._user_callable_wrapper._run_user_code_in_separate_thread:
        return "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD is on"
    return None
