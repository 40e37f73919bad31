"""A thread with a SQLite connection, and the schema of the file."""

from __future__ import annotations

import asyncio
import contextvars
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from deployments.log import Outages
from deployments.store.interface import StoreError, StoreUnavailable
from deployments.tracing import process as tracing

T = TypeVar("T")

BUSY_TIMEOUT_S = 1.2
DEADLINE_S = 1.8  # of a call, with its waits for the thread, locks and the disk
LATEST_S = 1.5  # after which no call is begun: its caller may soon be gone
MAX_WAITING = 1000
MAX_GROUP = 100
# Every commit empties the other connections' page caches, but not mapped pages. So reads of a
# million records take as long as of a thousand (0.08 and 0.06 ms, instead of 0.22 and 0.06).
MAPPED_BYTES = 1 << 30

# One entry per schema version, applied in order. A released one never changes.
Migrations = tuple[tuple[str, ...], ...]
MIGRATIONS: Migrations = (
    (
        "CREATE TABLE documents (collection TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, "
        "unique_index TEXT, PRIMARY KEY (collection, key)) WITHOUT ROWID",
        "CREATE UNIQUE INDEX documents_unique_index ON documents (collection, unique_index) "
        "WHERE unique_index IS NOT NULL",
        "CREATE TABLE counters (name TEXT PRIMARY KEY, count INTEGER NOT NULL, "
        "expires_at REAL NOT NULL) WITHOUT ROWID",
        "CREATE INDEX counters_expires_at ON counters (expires_at)",
    ),
    # snapshots of hidden states in an obsolete form
    ("DELETE FROM documents WHERE collection = 'hidden_states'",),
)


class _Call(NamedTuple):
    """A function that waits for the thread.

    Attributes:
        latest: monotonic time after which it must not be called.
    """

    work: Callable[[sqlite3.Connection], Any]
    latest: float
    answer: asyncio.Future[Any]

    def outcome(self, db: sqlite3.Connection) -> Any:
        # nothing must be stored after its caller has got an error
        if time.monotonic() > self.latest:
            return StoreUnavailable("sqlite: the database was busy for too long")
        try:
            return self.work(db)
        except StoreError as error:
            return error


class SqliteWorker:
    """Runs functions on one connection, in their order, in a thread.

    Functions that wait are handed over together: to wake the thread costs several times a read.

    Args:
        what: purpose of the connection, for the log.
        commit: encloses the functions of a group, which then share one transaction, and so one
            sync; None for reads, each of which fails alone. One that raises a StoreError must have
            changed nothing.
    """

    def __init__(
        self,
        path: Path,
        what: str,
        commit: Callable[[sqlite3.Connection], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._path = path
        self._commit = commit
        self._span = "sqlite commit" if commit else "sqlite"
        self._outages = Outages(f"The SQLite store of {path}, {what},")
        self._executor: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None  # touched in the thread only
        self._waiting: list[_Call] = []
        self._group: list[_Call] = []  # in the thread

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work(connection)`, once it is committed and synced.

        Raises:
            StoreError: of the function; others in its transaction are not affected.
            StoreUnavailable: SQLite failed, too much work waits, or the deadline passed.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise StoreUnavailable(f"sqlite: {MAX_WAITING} operations are waiting already")
        loop = asyncio.get_running_loop()
        if not self._waiting and not self._group:
            # with all that arrive in this turn, and in no caller's context
            loop.call_soon(self._send, context=contextvars.Context())
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_Call(work, time.monotonic() + LATEST_S, answer))
        try:
            with tracing.covering(self._span, tracing.current(), "client"):
                async with asyncio.timeout(DEADLINE_S):
                    return await answer
        except TimeoutError as error:
            late = StoreUnavailable(f"sqlite: no answer within {DEADLINE_S} s")
            self._outages.failed(late)
            raise late from error

    async def close(self) -> None:
        """Answer what waits, close the connection, and end the thread."""
        if unanswered := [call.answer for call in (*self._group, *self._waiting)]:
            await asyncio.wait(unanswered)
        if self._executor is None:
            return
        executor, self._executor = self._executor, None
        disconnected = asyncio.get_running_loop().run_in_executor(executor, self._disconnect)
        executor.shutdown(wait=False)
        # a thread that waits for a lock of another process cannot be stopped
        await asyncio.wait([disconnected], timeout=DEADLINE_S)

    def _send(self) -> None:
        while self._waiting and not self._group:
            group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
            self._group = [call for call in group if not call.answer.done()]
        if not self._group:
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        loop = asyncio.get_running_loop()
        sent = loop.run_in_executor(self._executor, self._serve, self._group)
        sent.add_done_callback(self._answer)

    def _answer(self, sent: asyncio.Future[list[Any]]) -> None:
        group, self._group = self._group, []
        defect = sent.exception()
        outcomes = sent.result() if defect is None else [defect] * len(group)
        for call, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, StoreUnavailable):
                self._outages.failed(outcome)
            else:
                self._outages.served()
            if call.answer.done():  # its caller has gone
                continue
            if isinstance(outcome, BaseException):
                call.answer.set_exception(outcome)
            else:
                call.answer.set_result(outcome)
        self._send()

    def _serve(self, group: list[_Call]) -> list[Any]:
        if self._commit is not None:
            return self._attempt(group, self._commit)
        return [outcome for call in group for outcome in self._attempt([call], nullcontext)]

    def _attempt(
        self,
        calls: list[_Call],
        enclosed: Callable[[sqlite3.Connection], AbstractContextManager[Any]],
    ) -> list[Any]:
        try:
            if self._connection is None:
                self._connection = connect(self._path)
            with enclosed(self._connection):
                return [call.outcome(self._connection) for call in calls]
        except (sqlite3.Error, OSError) as error:
            # a new connection next time: the fault may be in this one
            self._disconnect()
            return [StoreUnavailable(f"sqlite: {error}")] * len(calls)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect(path: Path, migrations: Migrations = MIGRATIONS) -> sqlite3.Connection:
    """Open the file, after creating and migrating it if necessary."""
    # personal data and password hashes: for the owner only; SQLite gives its log the same mode
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        path.touch(mode=0o600)
    # isolation_level None: transactions are explicit
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
        _migrate(connection, migrations)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Apply all of the block's changes or none, with the write lock from the start.

    SQLite does not wait for a lock that is taken later: it refuses to upgrade a stale snapshot.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back after some errors
            connection.execute("ROLLBACK")
        raise


@contextmanager
def turn(lock_path: Path) -> Iterator[None]:
    """Wait for the turn to write among all processes."""
    # SQLite's waiters poll, and starve for seconds beside a busy writer. The kernel wakes waiters
    # of a file lock, and releases the lock of a dead process. Mode 0600: everyone who can open
    # the file can hold the lock.
    with open(lock_path, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not wait for its lock here: processes that create the file at once must retry
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, migrations: Migrations) -> None:
    if _version(connection) == len(migrations):
        return
    with transaction(connection):  # of processes that start at once, one migrates
        version = _version(connection)
        if version > len(migrations):
            raise sqlite3.DatabaseError(
                f"the file has schema version {version}, newer than {len(migrations)}: "
                "it was made by a newer release"
            )
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
