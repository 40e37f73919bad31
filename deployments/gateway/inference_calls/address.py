"""Where this node's HTTP front serves an application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from deployments.ray_private.serve import Front, read_front

_EVERYWHERE = ("0.0.0.0", "::")
_CONNECT_S = 0.25


async def find_base_url(
    application: str,
    edge_url: str | None = None,
    read_front: Callable[[], Awaitable[Front]] = read_front,
) -> str:
    """Find the base URL of an application on this node, without a slash at its end.

    Args:
        edge_url: of an edge on this node that leads to all of Serve. It is taken while the front
            does not listen, for the edge knows another way.

    Raises:
        LookupError: it is not there, or not yet.
    """
    host, port, routes = await read_front()
    if application not in routes:
        raise LookupError(f"no application {application!r} has a route")
    route = routes[application].rstrip("/")
    host = "127.0.0.1" if host is None or host in _EVERYWHERE else host
    if edge_url is not None and not await _listens(host, port):
        return edge_url + route
    return f"http://[{host}]:{port}{route}" if ":" in host else f"http://{host}:{port}{route}"


async def _listens(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
