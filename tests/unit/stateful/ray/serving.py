"""A server of connections for one test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deployments.stateful.ray.channel import Address, Listener
from deployments.stateful.ray.commit_channel import CommitServer


@asynccontextmanager
async def serving(server: CommitServer | Listener) -> AsyncIterator[Address]:
    """Start the server, and at the end wait until its connections have ended without an error."""
    before = asyncio.all_tasks()
    yield await server.start("127.0.0.1")
    server.close()
    if connections := asyncio.all_tasks() - before - {asyncio.current_task()}:
        ended, _ = await asyncio.wait(connections, timeout=5)
        errors = [each.exception() for each in ended if not each.cancelled()]
        assert not any(errors), errors
