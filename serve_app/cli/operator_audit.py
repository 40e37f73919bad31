"""What operators change on the command line, noted in the audit log."""

from __future__ import annotations

import asyncio
import getpass
import socket
import time

from deployments.access.audit import AuditLog, Entry, shortened
from deployments.store import Store, StoreError, open_store
from serve_app.errors import CommandError
from serve_app.settings import Settings


def note(settings: Settings, event: str, detail: str) -> None:
    """Note a change that was made outside the store, as :func:`note_change` does."""

    async def in_the_store() -> None:
        store = open_store(settings.resolved_store_url)
        try:
            await note_change(store, event, detail)
        finally:
            await store.close()

    asyncio.run(in_the_store())


async def note_change(store: Store, event: str, detail: str) -> None:
    """Note a change that was made.

    Args:
        detail: what was changed, without secrets.

    Raises:
        CommandError: it was made, and could not be noted.
    """
    now = time.time_ns() // 1_000_000
    who, where = shortened(_operator()), shortened(socket.gethostname())
    entry = Entry("changes", now, event, who, where, shortened(detail), 1, now)
    try:
        await AuditLog(store).append("changes", [entry])
    except StoreError as error:
        raise CommandError(f"It was changed, but the audit log does not say so: {error}") from error


def _operator() -> str:
    try:
        return f"operator {getpass.getuser()}"
    except (KeyError, OSError):  # a user id without a name, as in containers
        return "operator"
