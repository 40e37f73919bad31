"""Group commit: waiting changes share one transaction, and so one sync."""

from __future__ import annotations

import asyncio
import contextvars
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from deployments.store.interface import StoreError, StoreUnavailable
from deployments.store.sqlite_worker import (
    LATEST_CHANGE_S,
    MAX_WAITING,
    SqliteWorker,
    transaction,
    within_deadline,
)
from deployments.tracing import process as tracing

T = TypeVar("T")
Change = Callable[[sqlite3.Connection], Any]
TimedChange = tuple[Change, float]  # with the monotonic time after which it must not be applied

MAX_GROUP = 100


class SqliteWriter:
    """Applies changes in order. A change that raises a StoreError must have changed nothing."""

    def __init__(self, path: Path) -> None:
        self._worker = SqliteWorker(path, "for writes")
        self._lock_path = path.with_name(f"{path.name}-turn")
        self._waiting: list[tuple[TimedChange, asyncio.Future[Any]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def run(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `change(connection)`, once it is committed and synced.

        Raises:
            StoreError: of the change; others in its transaction are not affected.
            StoreUnavailable: the whole transaction failed, or the change was too late.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise StoreUnavailable(f"sqlite: {MAX_WAITING} writes are waiting already")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(((change, time.monotonic() + LATEST_CHANGE_S), answer))
        if self._committing is None:
            # in no caller's context: it also commits for others
            context = contextvars.Context()
            self._committing = asyncio.create_task(self._commit_all(), context=context)
        with tracing.covering("sqlite commit", tracing.current(), "client"):
            return await within_deadline(answer)

    async def close(self) -> None:
        """Commit what waits, and close the connection."""
        if self._committing is not None:
            await self._committing
        await self._worker.close()

    async def _commit_all(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
                await self._commit([(c, a) for c, a in group if not a.done()])
        finally:
            self._committing = None

    async def _commit(self, group: list[tuple[TimedChange, asyncio.Future[Any]]]) -> None:
        changes = [change for change, _ in group]
        outcomes: list[Any]
        try:
            outcomes = await self._worker.run(partial(_apply, self._lock_path, changes))
        except StoreUnavailable as error:
            outcomes = [error] * len(group)
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            if answer.done():  # its caller was cancelled in the meantime
                continue
            if isinstance(outcome, StoreError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)


def _apply(lock_path: Path, changes: list[TimedChange], db: sqlite3.Connection) -> list[Any]:
    with _turn(lock_path), transaction(db):
        return [_outcome(*change, db) for change in changes]


def _outcome(change: Change, latest: float, db: sqlite3.Connection) -> Any:
    # nothing must be stored after its caller has got an error
    if time.monotonic() > latest:
        return StoreUnavailable("sqlite: the database was busy for too long")
    try:
        return change(db)
    except StoreError as error:
        return error


@contextmanager
def _turn(lock_path: Path) -> Iterator[None]:
    # SQLite's waiters poll, and starve for seconds beside a busy writer. The kernel wakes waiters
    # of a file lock, and releases the lock of a dead process. Mode 0600: everyone who can open
    # the file can hold the lock.
    with open(lock_path, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
