"""Where this node's HTTP front serves an application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from deployments.ray_private.serve import Front, read_front

_EVERYWHERE = ("0.0.0.0", "::")


async def find_base_url(
    application: str, read_front: Callable[[], Awaitable[Front]] = read_front
) -> str:
    """Find the base URL of an application at the front of this node, without a slash at its end.

    Raises:
        LookupError: it is not there, or not yet.
    """
    host, port, routes = await read_front()
    if application not in routes:
        raise LookupError(f"no application {application!r} has a route")
    host = "127.0.0.1" if host is None or host in _EVERYWHERE else host
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}{routes[application].rstrip('/')}"
