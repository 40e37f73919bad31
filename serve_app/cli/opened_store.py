"""The store as commands use it, and the audit log of what operators change."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from deployments.access.audit import AuditLog, Entry, shortened
from deployments.store import Store, StoreError, open_store
from serve_app.errors import CommandError
from serve_app.settings import Settings

T = TypeVar("T")


def with_store(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """Open a store, run work on it in a new event loop, and close the store."""

    async def run() -> T:
        store = open_store(url)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def read_store(options: argparse.Namespace, work: Callable[[Store], Awaitable[T]]) -> T:
    """Run work on the store of an instance.

    Raises:
        StoreError: there is no store.
    """
    return with_store(Settings.of_instance(options.port_base).existing_store_url(), work)


def change_store(
    options: argparse.Namespace,
    work: Callable[[Store], Awaitable[None]],
    event: str,
    detail: str,
    *,
    may_create: bool = False,
) -> None:
    """Change the store of an instance, and record that in the audit log.

    Args:
        detail: what has changed, without secrets.
        may_create: whether an embedded store may be created for it.
    """
    settings = Settings.of_instance(options.port_base)

    async def run(store: Store) -> None:
        await work(store)
        await record_change(store, event, detail)

    url = settings.resolved_store_url if may_create else settings.existing_store_url()
    with_store(url, run)


async def record_change(store: Store, event: str, detail: str) -> None:
    """Record a change by an operator in the audit log.

    Args:
        detail: what has changed, without secrets.

    Raises:
        CommandError: the audit log cannot be written; the change stays.
    """
    now = time.time_ns() // 1_000_000
    who, where = shortened(_operator()), shortened(socket.gethostname())
    entry = Entry("changes", now, event, who, where, shortened(detail), 1, now)
    try:
        await AuditLog(store).append("changes", [entry])
    except StoreError as error:
        raise CommandError(f"The change is made, but not in the audit log: {error}") from error


def _operator() -> str:
    try:
        return f"operator {getpass.getuser()}"
    except (KeyError, OSError):  # a user id without a name, as in containers
        return "operator"
