"""The inference application's Serve handle, for calls that belong to no client's request."""

from __future__ import annotations

import asyncio
from typing import Any

from ray import serve


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
