"""The table of a shard: rows of states in an LMDB file, which all replicas of a machine map.

A step is one transaction, which compares the version of each row with the one that was read. LMDB
copies pages on write and has one writer at a time under a robust lock, so that a process that is
killed at any moment leaves the table as its last transaction did. The file lies in memory
(``/dev/shm``): a transaction takes microseconds, and survives every process.

Beside the states, in the same tree, whose other keys begin with the byte 1:

    ``\\1c``         the number of states, and the limit
    ``\\1o`` DIGEST  the result of an operation on a run, and its slot in a ring
    ``\\1r`` SLOT    the digest of the operation in this slot

Every method is called in one transaction, and blocks for microseconds. A table belongs to the
process that opened it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import lmdb

from deployments.stateful.errors import TableFullError, TooManyStatesError, UnavailableError
from deployments.stateful.page import Page, names_in
from deployments.stateful.row import ABSENT, VERSION_BYTES, FewRows, ManyRows, RowForm

OPERATIONS = 1 << 14
"""Operations on runs that are remembered, the latest ones."""
MAX_READERS = 2048
RESERVE = 2048
"""Rows for which new states leave room, since a change copies its rows before it frees them."""

_COUNTS, _COUNTS_KEY = struct.Struct("<QQQ"), b"\1c"
_SLOT, _ID = struct.Struct(">I"), struct.Struct("<Q")
_PAGE = mmap.PAGESIZE  # of LMDB's
_USED = struct.Struct("<24xI")  # life, step, variant and zero come before it
_FIRST_NAME = b"\2"


def row_size(form: RowForm) -> int:
    """Return the most bytes of the file that one row takes; LMDB's pages have rarely two."""
    return -(-(form.size + 16) // _PAGE) * _PAGE + 256


def full_size(form: RowForm, max_states: int) -> int:
    """Return the bytes of the file of a full table, with its reserve, log and operations."""
    return (max_states + RESERVE) * row_size(form) + (16 << 20)


class Read(NamedTuple):
    """Rows as they were in one transaction.

    Attributes:
        number: of the latest transaction before it; 0 if the rows may be older, as those that a
            :class:`.remote.RemoteTable` keeps.
        rows: one for each name, with zeros where there is none. They may be changed.
    """

    number: int
    rows: FewRows | ManyRows


class Written(NamedTuple):
    """What became of a write.

    Attributes:
        number: of the transaction; 0 if nothing was written.
        raced: places of rows that another process has changed since they were read.
        refused: places of new rows that have no room, and why.
    """

    number: int
    raced: Collection[int] = ()
    refused: Collection[int] = ()
    why: TooManyStatesError | None = None


class Listed(NamedTuple):
    """A row without its state."""

    name: bytes
    step: int
    variant: int
    used: int


class Operation(NamedTuple):
    """An operation on a run that happens once.

    Attributes:
        kind: ``reset``, ``fork`` or ``import``.
        id: its idempotency key; None if it need not be remembered.
    """

    kind: str
    run: str
    id: str | None = None

    @property
    def digest(self) -> bytes | None:
        if self.id is None:
            return None
        return hashlib.blake2b("\0".join(self).encode(), digest_size=16).digest()  # type: ignore[arg-type]


class Table:
    """An open table.

    Args:
        file: of LMDB, which exists.
        page: that the home writes.
    """

    def __init__(self, file: Path, page: Page, form: RowForm, map_size: int) -> None:
        self.form = form
        self.page = page
        self.longest_lock_s = 0.0
        self._map_size = map_size
        self._reserve = min(RESERVE * row_size(form), map_size // 4)
        self._env = lmdb.open(
            str(file),
            subdir=False,
            create=True,
            map_size=map_size,
            sync=False,
            metasync=False,
            writemap=False,  # with it, a full file system ends the process by a signal
            readahead=False,
            max_readers=MAX_READERS,
            max_spare_txns=4,
            mode=0o600,
        )
        self._file = os.open(file, os.O_RDWR)

    def close(self) -> None:
        self._env.close()
        os.close(self._file)

    # Steps

    def read(self, names: Sequence[bytes]) -> Read:
        """Return the rows of different names."""
        try:
            with self._env.begin(buffers=True) as txn:
                get, empty = txn.get, self.form.empty
                return Read(txn.id(), self.form.of([get(name, empty) for name in names]))
        except lmdb.Error as error:
            raise UnavailableError(f"The table of hidden states fails: {error}") from error

    def get(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the bytes of those rows that exist."""
        with self._env.begin() as txn:
            return dict(txn.cursor().getmulti(names))

    def write(
        self,
        names: Sequence[bytes],
        read: Read,
        which: Sequence[int] | None = None,
        aside: Mapping[int, tuple[bytes, bytes]] | None = None,
    ) -> Written:
        """Write rows that were read and changed, but none that another process has changed since.

        Args:
            which: places of those to write; None for all.
            aside: name and row of a state that another variant of the model leaves, by the place
                of the row that it was in; written with that row.

        Raises:
            UnavailableError: nothing was written.
        """
        every = range(len(names)) if which is None else which
        try:
            return self._write(names, read, every, aside or {})
        except lmdb.Error as error:
            versions = read.rows.versions
            rest = [at for at in every if versions[at] != ABSENT and not (aside and at in aside)]
            new = sorted(set(every).difference(rest))
            if not new:
                raise UnavailableError(f"The table of hidden states fails: {error}") from error
        # Full, perhaps: the states that exist go on.
        why = TableFullError(self.counts()[0])
        if not rest:
            return Written(0, (), new, why)
        return self.write(names, read, rest)._replace(refused=new, why=why)

    def _write(
        self,
        names: Sequence[bytes],
        read: Read,
        which: Sequence[int],
        aside: Mapping[int, tuple[bytes, bytes]],
    ) -> Written:
        raced: Collection[int] = ()
        refused: Collection[int] = ()
        why, rows = None, read.rows
        with self._changing() as txn:
            number = txn.id()
            if number != read.number + 1:  # another transaction came between
                raced = self._raced(txn, names, which, rows.versions)
                which = [at for at in which if at not in raced] if raced else which
            has_new = ABSENT in rows.versions
            if has_new or aside:
                refused, why = self._admit(txn, rows, which, aside)
                which = [at for at in which if at not in refused] if refused else which
            raws = rows.raws
            puts: list[tuple[bytes, Any]] = [(names[at], raws[at]) for at in which]
            if aside:
                puts += [aside[at] for at in which if at in aside]
            if not puts:
                txn.abort()
                return Written(0, raced, refused, why)
            if len(puts) == 1:
                txn.put(*puts[0])
            else:
                txn.cursor().putmulti(_in_pairs(puts) if has_new else puts)
            self.page.note(number, [name for name, _ in puts])
        return Written(number, raced, refused, why)

    @staticmethod
    def _raced(
        txn: Any, names: Sequence[bytes], which: Sequence[int], versions: Sequence[bytes]
    ) -> set[int]:
        get = txn.get
        return {at for at in which if get(names[at], ABSENT)[:VERSION_BYTES] != versions[at]}

    def _admit(
        self,
        txn: Any,
        rows: FewRows | ManyRows,
        which: Sequence[int],
        aside: Mapping[int, tuple[bytes, bytes]],
    ) -> tuple[set[int], TooManyStatesError | None]:
        """Count new rows, and give them a life; return the places that have no room."""
        n_states, limit, _ = counts = self._counts(txn)
        free = self._room()
        room = most = min(limit - n_states, free)
        refused: set[int] = set()
        for at in which:
            is_new = rows.versions[at] == ABSENT
            n_new = is_new + (at in aside and txn.get(aside[at][0]) is None)
            if n_new and n_new > room:
                refused.add(at)
            else:
                room -= n_new
            if is_new:
                rows.live(at, txn.id())
        if most > room:
            self._count(txn, counts, most - room)
        return refused, self._full(n_states, limit, free) if refused else None

    @staticmethod
    def _full(n_states: int, limit: int, free: int) -> TooManyStatesError:
        return TableFullError(n_states) if free < limit - n_states else TooManyStatesError(limit)

    def _room(self) -> int:
        """Return the number of new rows for which the file and its folder have room."""
        used, taken, free = self._space()
        size = min(self._map_size, taken + free)
        return (size - used - self._reserve) // row_size(self.form)

    def _space(self) -> tuple[int, int, int]:
        """Return the bytes in use, those that the file has, and those that it can get."""
        pages, folder = self._env.stat(), os.fstatvfs(self._file)
        used = _PAGE * (pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"])
        is_limited = folder.f_blocks > 0
        free = folder.f_bavail * folder.f_frsize if is_limited else self._map_size
        return used, os.fstat(self._file).st_blocks * 512, free

    def _changing(self) -> Any:
        """Return a transaction that changes the table, when it is this process' turn."""
        began = perf_counter()
        txn = self._env.begin(write=True, buffers=True)
        waited = perf_counter() - began
        if waited > self.longest_lock_s:
            self.longest_lock_s = waited
        try:
            self.page.require_valid()
        except UnavailableError:
            txn.abort()
            raise
        return txn

    @staticmethod
    def _counts(txn: Any) -> tuple[int, int, int]:
        counts: tuple[int, int, int] = _COUNTS.unpack(txn.get(_COUNTS_KEY) or bytes(_COUNTS.size))
        return counts

    @staticmethod
    def _count(txn: Any, counts: tuple[int, int, int], more: int, operations: int = 0) -> None:
        n_states, limit, n_operations = counts
        new = _COUNTS.pack(n_states + more, limit, n_operations + operations)
        txn.put(_COUNTS_KEY, new)

    # Runs

    def replace(self, operation: Operation, rows: Mapping[bytes, bytes], result: Any = None) -> Any:
        """Let a run have these rows and no others; return the result, or that of the first time.

        Args:
            rows: by name, all of the run. Their lives are overwritten.
            result: JSON.

        Raises:
            TooManyStatesError, UnavailableError: nothing was changed.
        """
        try:
            with self._changing() as txn:
                known = self._operation(txn, operation)
                if known is not None:
                    txn.abort()
                    return json.loads(known)
                removed = self._remove(txn, operation.run.encode() + b"\0")
                n_states, limit, _ = counts = self._counts(txn)
                more = len(rows) - len(removed)
                if more > 0 and more > min(limit - n_states, free := self._room()):
                    txn.abort()
                    raise self._full(n_states, limit, free)
                life = _ID.pack(txn.id())
                puts = [(name, life + row[8:]) for name, row in rows.items()]
                txn.cursor().putmulti(_in_pairs(puts))
                self._remember(txn, operation, result, counts, more)
                if removed or rows:
                    self.page.note(txn.id(), list({**dict.fromkeys(removed), **rows}))
        except lmdb.Error as error:
            if rows:
                raise TableFullError(self.counts()[0]) from error
            raise UnavailableError(f"The table of hidden states fails: {error}") from error
        return result

    @staticmethod
    def _remove(txn: Any, prefix: bytes) -> list[bytes]:
        removed: list[bytes] = []
        cursor = txn.cursor()
        found = cursor.set_range(prefix)
        while found and (name := bytes(cursor.key())).startswith(prefix):
            removed.append(name)
            cursor.delete()
            found = bool(cursor.key())
        return removed

    def operation(self, operation: Operation) -> Any:
        """Return the result of an operation that was made before, or None."""
        with self._env.begin() as txn:
            known = self._operation(txn, operation)
        return None if known is None else json.loads(known)

    @staticmethod
    def _operation(txn: Any, operation: Operation) -> bytes | None:
        digest = operation.digest
        known = None if digest is None else txn.get(b"\1o" + digest)
        return None if known is None else bytes(known)

    def _remember(
        self, txn: Any, operation: Operation, result: Any, counts: tuple[int, int, int], more: int
    ) -> None:
        digest = operation.digest
        if digest is not None:
            slot = b"\1r" + _SLOT.pack(counts[2] % OPERATIONS)
            oldest = txn.get(slot)
            if oldest is not None:
                txn.delete(b"\1o" + bytes(oldest))
            txn.put(slot, digest)
            txn.put(b"\1o" + digest, json.dumps(result).encode())
        if more or digest is not None:
            self._count(txn, counts, more, operations=digest is not None)

    def rows_of(self, run: str) -> dict[bytes, bytes]:
        """Return the rows of a run by name, as of one moment."""
        prefix, rows = run.encode() + b"\0", {}
        with self._env.begin() as txn:
            cursor = txn.cursor()
            found = cursor.set_range(prefix)
            while found and cursor.key().startswith(prefix):
                rows[cursor.key()] = cursor.value()
                found = cursor.next()
        return rows

    def list(self, after: bytes = b"", limit: int = 1000) -> list[Listed]:
        """Return the first rows after a name, in the order of their names."""
        listed: list[Listed] = []
        offsets = struct.Struct("<8xQI4xI")
        with self._env.begin(buffers=True) as txn:
            cursor = txn.cursor()
            found = cursor.set_range(after + b"\0" if after else _FIRST_NAME)
            while found and len(listed) < limit:
                step, variant, used = offsets.unpack_from(cursor.value())
                listed.append(Listed(bytes(cursor.key()), step, variant, used))
                found = cursor.next()
        return listed

    # For the home

    def latest(self) -> int:
        """Return the number of the latest transaction."""
        with self._env.begin() as txn:
            number: int = txn.id()
        return number

    def counts(self) -> tuple[int, int]:
        """Return the number of states, and the limit."""
        with self._env.begin() as txn:
            n_states, limit, _ = self._counts(txn)
        return n_states, limit

    def set_limit(self, limit: int) -> None:
        with self._env.begin(write=True) as txn:
            n_states, _, n_operations = self._counts(txn)
            txn.put(_COUNTS_KEY, _COUNTS.pack(n_states, limit, n_operations))

    def load(self, rows: Mapping[bytes, bytes]) -> None:
        """Put rows of the store into a table that has none of them."""
        with self._env.begin(write=True) as txn:
            txn.cursor().putmulti(_in_pairs(list(rows.items())))
            self._count(txn, self._counts(txn), len(rows))

    def changed(self, since: int) -> tuple[int, set[bytes] | None]:
        """Return the number of the latest transaction, and the names that were changed since then.

        None stands for all: the log is not complete. What changed before is forgotten.
        """
        with self._env.begin(write=True) as txn:  # no other process changes the log meanwhile
            latest = txn.id() - 1
            log = self.page.take(since, latest)
            txn.abort()
        return latest, None if log is None else set(names_in(log, since))

    def evict(self, run: bytes, is_idle: Callable[[int], bool]) -> None:
        """Remove the rows of a run, if all are idle by the second of their latest step."""
        prefix = run + b"\0"
        with self._changing() as txn:
            cursor = txn.cursor()
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()).startswith(prefix):
                if not is_idle(_USED.unpack_from(cursor.value())[0]):
                    return
                found = cursor.next()
            removed = self._remove(txn, prefix)
            if removed:
                self._count(txn, self._counts(txn), -len(removed))
                self.page.note(txn.id(), removed)

    def keep_reserve(self) -> None:
        """Allocate what new states leave, before another program can fill the folder."""
        used, taken, free = self._space()
        if taken - used < self._reserve:
            end = (self._env.info()["last_pgno"] + 1) * _PAGE
            with suppress(OSError):  # it is full
                os.posix_fallocate(self._file, end, min(self._reserve, free))

    def free_stale_readers(self) -> None:
        """Free the reader slots of processes that were killed."""
        self._env.reader_check()

    def pids(self) -> set[int]:
        """Return the processes that have read the table and not ended."""
        lines = self._env.readers().splitlines()[1:]
        return {int(line.split()[0]) for line in lines if line.strip()}


async def runs_in(read: Callable[[bytes], Awaitable[list[Listed]]]) -> AsyncIterator[list[Listed]]:
    """Yield the rows of each run of a table.

    Args:
        read: returns the first rows after a name; see :meth:`Table.list`.
    """
    rows, more = list[Listed](), True
    while more:
        page = await read(rows[-1].name if rows else b"")
        more = bool(page)
        runs = [[*of_run] for _, of_run in groupby(rows + page, _run_of)]
        rows = runs.pop() if more else []  # the last run may go on in the next page
        for each in runs:
            yield each


def _run_of(row: Listed) -> bytes:
    return row.name.partition(b"\0")[0]


def _in_pairs(puts: list[tuple[bytes, Any]]) -> list[tuple[bytes, Any]]:
    """Return new rows in an order in which two fill a page, which others are often split for."""
    return puts[::2] + puts[1::2]
