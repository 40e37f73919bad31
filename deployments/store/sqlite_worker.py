"""A thread with a SQLite connection, and the schema of the file."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from deployments.log import Outages
from deployments.store.interface import StoreUnavailable
from deployments.tracing import process as tracing

T = TypeVar("T")

BUSY_TIMEOUT_S = 1.2
DEADLINE_S = 1.8  # of a call, with its waits for the thread, locks and the disk
LATEST_CHANGE_S = 1.5  # after which no change is applied: its caller may soon be gone
MAX_WAITING = 1000
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


async def within_deadline(answer: Awaitable[T]) -> T:
    """Return the awaited value; raise StoreUnavailable after the deadline."""
    try:
        return await asyncio.wait_for(answer, DEADLINE_S)
    except TimeoutError as error:
        raise StoreUnavailable(f"sqlite: no answer within {DEADLINE_S} s") from error


class SqliteWorker:
    """Runs functions on one connection, one after the other, in a thread.

    Args:
        what: purpose of the connection, for the log.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._outages = Outages(f"The SQLite store of {path}, {what},")
        self._executor: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None  # touched in the thread only
        self._waiting = 0

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work(connection)`.

        Raises:
            StoreUnavailable: SQLite failed, too much work waits, or the deadline passed.
        """
        if self._waiting >= MAX_WAITING:
            raise StoreUnavailable(f"sqlite: {MAX_WAITING} operations are waiting already")
        self._waiting += 1
        try:
            with tracing.covering("sqlite", tracing.current(), "client"):
                result = await within_deadline(self._submit(lambda: self._attempt(work)))
        except StoreUnavailable as error:
            self._outages.failed(error)
            raise
        finally:
            self._waiting -= 1
        self._outages.served()
        return result

    async def close(self) -> None:
        """Close the connection, and end the thread."""
        if self._executor is None:
            return
        executor, self._executor = self._executor, None
        disconnected = asyncio.get_running_loop().run_in_executor(executor, self._disconnect)
        executor.shutdown(wait=False)
        # a thread that waits for a lock of another process cannot be stopped
        await asyncio.wait([disconnected], timeout=DEADLINE_S)

    async def _submit(self, call: Callable[[], T]) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = connect(self._path)
            return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            # a new connection next time: the fault may be in this one
            self._disconnect()
            raise StoreUnavailable(f"sqlite: {error}") from error

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
