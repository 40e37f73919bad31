"""The inference application's Serve handle, for calls that belong to no client's request."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

from ray import serve
from ray.serve.context import _RequestContext, _serve_request_context


class RemoteInference:
    """The inference deployment's methods; Serve would look up each of them anew at each call.

    Implements :class:`.handle_transport.Handle`.
    """

    def __init__(self, handle: Any) -> None:
        self.act = handle.act.remote
        self.reset_run = handle.reset_run.remote
        self.health_status = handle.health_status.remote


async def find_handle(application: str) -> RemoteInference:
    """Return the handle of an application; raise what Serve raises while there is none."""
    handle = await asyncio.to_thread(serve.get_app_handle, application)
    # plain tuples: pickle does what cloudpickle, the default, does more slowly
    return RemoteInference(
        handle.options(request_serialization="pickle", response_serialization="pickle")
    )


def context_of(request_id: str | None) -> contextvars.Context:
    """Return a context of no client's request, whose calls bear an id in the logs."""
    context = contextvars.Context()
    context.run(_serve_request_context.set, _RequestContext(request_id=request_id or ""))
    return context
