"""Where this node's HTTP front serves an application."""

from __future__ import annotations

import asyncio

from ray.serve.context import _get_global_client

_EVERYWHERE = ("0.0.0.0", "::")


async def find_base_url(application: str) -> str:
    """The base URL of an application at the front of this node, without a slash at its end.

    Raises:
        LookupError: it is not there, or not yet.
    """
    client = await asyncio.to_thread(_get_global_client)
    for deployment, endpoint in (await client._controller.get_all_endpoints.remote()).items():
        if deployment.app_name == application and endpoint["route"]:
            host, port = client.http_config.host, client.http_config.port
            host = "127.0.0.1" if host is None or host in _EVERYWHERE else host
            host = f"[{host}]" if ":" in host else host
            return f"http://{host}:{port}{endpoint['route'].rstrip('/')}"
    raise LookupError(f"no application {application!r} has a route")
