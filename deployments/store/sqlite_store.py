"""The embedded store: one SQLite file, shared by the processes of one machine.

Write-ahead logging lets readers and one writer work at the same time (https://sqlite.org/wal.html);
`synchronous=FULL` syncs the log at every commit, so that an acknowledged write survives power loss.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from deployments.store.interface import (
    ALWAYS,
    BATCH,
    Document,
    DocumentNotFound,
    DuplicateDocument,
    DuplicateIndex,
    DuplicateKey,
    Expected,
    InvalidStoreUrl,
    Keys,
    Puts,
    Store,
    batches,
)
from deployments.store.sqlite_worker import SqliteWorker, transaction, turn

_GET = "SELECT value FROM documents WHERE collection = ? AND key = ?"
_GET_BY_INDEX = "SELECT value FROM documents WHERE collection = ? AND unique_index = ?"
_PUT = (
    "INSERT INTO documents (collection, key, value) VALUES (?, ?, ?) "
    "ON CONFLICT (collection, key) DO UPDATE SET value = excluded.value"
)
_DELETE = "DELETE FROM documents WHERE collection = ? AND key = ?"


class SqliteStore(Store):
    """Documents in one file. Writes and reads have separate threads: no read waits for a sync."""

    is_local = True

    def __init__(self, path: str) -> None:
        if not path or path == ":memory:" or "\0" in path:
            raise InvalidStoreUrl("a sqlite store needs the path of a file: sqlite:///PATH")
        self._path = Path(path).absolute()
        self._writer = SqliteWorker(self._path, "for writes", self._commit)
        self._reader = SqliteWorker(self._path, "for reads")

    def __reduce__(self) -> tuple[type[SqliteStore], tuple[str]]:
        return SqliteStore, (str(self._path),)

    @property
    def identity(self) -> str:
        return f"sqlite {self._path.resolve()}"

    async def create_many(
        self, table: str, documents: Sequence[Document]
    ) -> list[DuplicateDocument | None]:
        errors: list[DuplicateDocument | None] = []
        for batch in batches(documents):
            errors += await self._writer.run(partial(_insert_many, table, batch))
        return errors

    async def get(self, table: str, key: str) -> bytes | None:
        return await self._reader.run(lambda db: _first(db.execute(_GET, (table, key))))

    async def get_by_index(self, table: str, index: str) -> bytes | None:
        return await self._reader.run(lambda db: _first(db.execute(_GET_BY_INDEX, (table, index))))

    async def replace(self, table: str, document: Document) -> None:
        await self._writer.run(lambda db: _update(db, table, document))

    async def delete_by_index(self, table: str, index: str) -> bool:
        statement = "DELETE FROM documents WHERE collection = ? AND unique_index = ?"
        return await self._writer.run(lambda db: db.execute(statement, (table, index)).rowcount > 0)

    async def change(
        self, table: str, puts: Puts, deletes: Keys = (), *, when: Expected = ALWAYS
    ) -> bool:
        written = [(table, key, value) for key, value in puts.items()]
        deleted = [(table, key) for key in deletes if key not in puts]

        def apply(db: sqlite3.Connection) -> bool:
            if _first(db.execute(_GET, (table, when.key))) != when.value:
                return False
            db.executemany(_PUT, written)
            db.executemany(_DELETE, deleted)
            return True

        return await self._writer.run(apply)

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        # a separate connection, whose open read transaction is the snapshot
        worker = SqliteWorker(self._path, "for a scan")
        query = "SELECT key, value FROM documents WHERE collection = ?"
        try:
            rows = await worker.run(lambda db: db.execute("BEGIN").execute(query, (table,)))
            while page := await worker.run(lambda _: rows.fetchmany(BATCH)):
                for key, value in page:
                    yield key, value
        finally:
            await worker.close()

    async def increment(self, counter: str, lifetime_s: float) -> int:
        return await self._writer.run(lambda db: _increment(db, counter, time.time(), lifetime_s))

    async def count(self, counter: str) -> int:
        query = "SELECT count FROM counters WHERE name = ? AND expires_at > ?"
        found = await self._reader.run(
            lambda db: db.execute(query, (counter, time.time())).fetchone()
        )
        return int(found[0]) if found else 0

    async def reset(self, counter: str) -> None:
        await self._writer.run(
            lambda db: db.execute("DELETE FROM counters WHERE name = ?", (counter,))
        )

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()

    @contextmanager
    def _commit(self, db: sqlite3.Connection) -> Iterator[None]:
        with turn(self._path.with_name(f"{self._path.name}-turn")), transaction(db):
            yield


def _first(rows: sqlite3.Cursor) -> bytes | None:
    row = rows.fetchone()
    return None if row is None else bytes(row[0])


def _insert_many(
    table: str, documents: list[Document], db: sqlite3.Connection
) -> list[DuplicateDocument | None]:
    return [_insert(db, table, document) for document in documents]


def _insert(db: sqlite3.Connection, table: str, document: Document) -> DuplicateDocument | None:
    statement = (
        "INSERT INTO documents (collection, key, value, unique_index) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING"
    )
    if db.execute(statement, (table, document.key, document.value, document.index)).rowcount:
        return None
    if document.index is not None and _has(db, _GET_BY_INDEX, table, document.index):
        return DuplicateIndex(table, document.index)
    return DuplicateKey(table, document.key)


def _update(db: sqlite3.Connection, table: str, document: Document) -> None:
    statement = (
        "UPDATE OR IGNORE documents SET value = ?, unique_index = ? "
        "WHERE collection = ? AND key = ?"
    )
    row = (document.value, document.index, table, document.key)
    if db.execute(statement, row).rowcount:
        return
    if document.index is not None and _has(db, _GET, table, document.key):
        raise DuplicateIndex(table, document.index)
    raise DocumentNotFound(table, document.key)


def _has(db: sqlite3.Connection, query: str, table: str, name: str) -> bool:
    return db.execute(query, (table, name)).fetchone() is not None


def _increment(db: sqlite3.Connection, counter: str, now: float, lifetime_s: float) -> int:
    db.execute("DELETE FROM counters WHERE expires_at <= ?", (now,))
    # one that expires later was created before the clock was set back
    db.execute(
        "UPDATE counters SET expires_at = min(expires_at, ?) WHERE name = ?",
        (now + lifetime_s, counter),
    )
    row = db.execute(
        "INSERT INTO counters (name, count, expires_at) VALUES (?, 1, ?) "
        "ON CONFLICT (name) DO UPDATE SET count = count + 1 RETURNING count",
        (counter, now + lifetime_s),
    ).fetchone()
    return int(row[0])
