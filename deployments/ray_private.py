"""All that the project uses of Ray although Ray does not promise to keep it.

Each was read in Ray's source of the version below. Whoever raises that version reads them again.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping
from typing import NamedTuple

# The strict check of a config has to find a builder exactly as Serve will find it.
from ray._common.utils import import_attr as import_attr
from ray._private.state import state

# Replicas are actors of this namespace; only the name of one's own is public.
from ray.serve._private.constants import SERVE_NAMESPACE as SERVE_NAMESPACE
from ray.serve.context import _get_global_client, _RequestContext, _serve_request_context

READ_IN = "2.60"


class Front(NamedTuple):
    """Where the HTTP fronts listen on every node, and the route prefix of each application."""

    host: str | None
    port: int
    routes: Mapping[str, str]


async def read_front() -> Front:
    """Ask Serve where its HTTP fronts are.

    ``serve.status`` tells neither address nor routes. The dashboard tells both, but a replica knows
    neither where the dashboard is nor the token that it may ask for.
    """
    client = await asyncio.to_thread(_get_global_client)
    endpoints = await client._controller.get_all_endpoints.remote()
    routes = {
        deployment.app_name: endpoint["route"]
        for deployment, endpoint in endpoints.items()
        if endpoint["route"]
    }
    return Front(client.http_config.host, client.http_config.port, routes)


def read_actor_process(actor_id: str) -> tuple[str, int]:
    """Return node id and process id that the GCS knows an actor by; blocks until it answers.

    The public state API asks the dashboard, which is not always there.
    """
    actor = state.actor_table(actor_id)
    return actor["Address"]["NodeID"], actor["Pid"]


def context_of_request(request_id: str | None) -> contextvars.Context:
    """Make a context of no client's request, whose calls by handle bear this id in the logs.

    A handle takes the id from the request that is being answered, and has no option for another.
    """
    context = contextvars.Context()
    context.run(_serve_request_context.set, _RequestContext(request_id=request_id or ""))
    return context
