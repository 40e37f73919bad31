"""Where the inference service is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from deployments.gateway import EDGE_VARIABLE
from deployments.gateway.inference_calls.http_calls import ROUTE
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
        edge_url: base URL of an edge on this node. It leads to the replicas directly, and is used
            while it listens.

    Raises:
        LookupError: the application is not deployed, or not yet.
    """
    host, port, routes = await read_front()
    if application not in routes:
        raise LookupError(f"no application {application!r} has a route")
    route = routes[application].rstrip("/")
    if edge_url is not None and await _listens(edge_url):
        return edge_url + route
    if host is None or host in _EVERYWHERE:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}{route}" if ":" in host else f"http://{host}:{port}{route}"


async def _listens(url: str) -> bool:
    address = urlsplit(url)
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def base_finder(inference_url: str | None, application: str) -> Callable[[], Awaitable[str]]:
    """Return a function that finds the base URL of the inference service.

    Args:
        inference_url: full ``/predict_action`` URL; None finds the application on this node.
    """
    if inference_url is None:
        edge_url = os.environ.get(EDGE_VARIABLE)
        return lambda: find_base_url(application, edge_url)
    base = base_of(inference_url)

    async def configured() -> str:
        return base

    return configured


def base_of(url: str) -> str:
    """Return the part of a full ``/predict_action`` URL before that route.

    Raises:
        ValueError: the URL has another form.
    """
    parts = urlsplit(url)
    plain = not (parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ValueError(f"RL_INFERENCE_SERVICE_URL is not a plain http(s) URL: {url!r}")
    if not parts.path.endswith(ROUTE):
        raise ValueError(f"RL_INFERENCE_SERVICE_URL must end with {ROUTE}: {url!r}")
    return url.removesuffix(ROUTE)
