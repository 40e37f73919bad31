"""The copies of a shard's rows in the store, and how they follow the table."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from deployments.stateful.errors import OutcomeUnknownError
from deployments.stateful.shards import copy_row, name_of_copy, shard_of
from deployments.stateful.table import Table, runs_in
from deployments.stateful.term import ALL_TO_COPY, Term
from deployments.store import Store

logger = logging.getLogger("ray.serve")

ROWS_PER_WRITE = 512
MOST_ROWS_PER_WRITE = 8 * ROWS_PER_WRITE
COPIED_TIMEOUT_S = 4.0

InThread = Callable[..., Awaitable[Any]]


class Copies:
    """The copies, for the shard's home. The methods raise StoreUnavailable and SupersededError.

    Args:
        place: number of the shard, and of the shards.
        in_thread: calls a function that blocks, and returns what it returns.

    Attributes:
        at_work: held by whoever uses the table in a thread.
        wanted: set when a copy is to be made at once.
        wrote_at: when the record was written last.
    """

    def __init__(
        self,
        store: Store,
        store_table: str,
        term: Term,
        place: tuple[int, int],
        in_thread: InThread,
        clock: Callable[[], float],
    ) -> None:
        self.table: Table
        self.at_work = asyncio.Lock()
        self.wanted = asyncio.Event()
        self.wrote_at = self._copied_at = clock()
        self._store, self._store_table, self._term = store, store_table, term
        self._shard, self._shards = place
        self._in_thread = in_thread
        self._clock = clock
        self._copied = 0
        self._after_copy = asyncio.Event()

    @property
    def lag_s(self) -> float:
        """Age of the copies, which have all that changed before."""
        return self._clock() - self._copied_at

    async def load(self) -> None:
        """Put the copies into the table, which has no rows, and note in the record that it has."""
        form, rows = self.table.form, dict[bytes, bytes]()
        at = form.dtype.fields["used"][1]  # type: ignore[index]
        now = int(self._clock()).to_bytes(4, "little")  # they were used by another clock
        async for name, row in self._stored():
            if len(row) == form.size:
                rows[name] = row[:at] + now + row[at + 4 :]
            if len(rows) == ROWS_PER_WRITE:
                await self._in_thread(self.table.load, rows)
                rows = {}
        await self._in_thread(self.table.load, rows)
        number, _ = await self._in_thread(self.table.changed, 0)
        await self.write({}, copied=number)

    async def begin(self) -> None:
        """Follow the table from where the record says that its copies are."""
        self._copied = copied = self._term.record.copied
        self.table.page.copied = max(copied, 0)
        if copied == ALL_TO_COPY:
            logger.warning("The store has lost copies of hidden states; all are copied again")

    async def flush(self) -> None:
        """Copy all that has changed until now; after an error, the next call copies it."""
        async with self.at_work:
            began_at = self._clock()
            number, names = await self._in_thread(self.table.changed, self._copied)
            chunks = await self._in_thread(divide, await self._names() if names is None else names)
            while chunks:
                puts, deletes = await self._in_thread(self._copy, chunks.pop())
                await self.write(puts, deletes, **{} if chunks else {"copied": number})
            self._copied = self.table.page.copied = number
            self._copied_at = began_at
        self._after_copy.set()
        self._after_copy = asyncio.Event()

    async def copied(self, number: int) -> None:
        """Return when a transaction is in the store, with all before it.

        Raises:
            OutcomeUnknownError: it was not, within 4 s.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(COPIED_TIMEOUT_S):
                for _ in range(3):  # copies: one under way, the next, and none
                    if self.table.page.copied >= number:
                        return
                    self.wanted.set()
                    await self._after_copy.wait()
        if self.table.page.copied < number:
            raise OutcomeUnknownError

    async def write(self, *rows: Any, **changed: Any) -> None:
        """Write to the store; see :meth:`.term.Term.write`."""
        await self._term.write(*rows, **changed)
        self.wrote_at = self._clock()

    async def _names(self) -> set[bytes]:
        """Return the names of all rows and of all copies."""
        runs = runs_in(partial(self._in_thread, self.table.list))
        names = {row.name async for rows in runs for row in rows}
        return names.union([name async for name, _ in self._stored()])

    def _copy(self, names: Sequence[bytes]) -> tuple[dict[str, bytes], list[str]]:
        rows = self.table.get(names)
        puts = {copy_row(name): row for name, row in rows.items()}
        return puts, [copy_row(name) for name in names if name not in rows]

    async def _stored(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield name and row of each copy of this shard."""
        async for key, row in self._store.scan(self._store_table):
            name = name_of_copy(key)
            if name is not None:
                run = name.partition(b"\0")[0].decode()
                if shard_of(run, self._shards) == self._shard:
                    yield name, row


def divide(names: Collection[bytes]) -> list[list[bytes]]:
    """Divide rows into those of one write; the rows of a run are together, up to a maximum."""
    runs: dict[bytes, list[bytes]] = {}
    for name in names:
        runs.setdefault(name.partition(b"\0")[0], []).append(name)
    chunks: list[list[bytes]] = []
    for of_run in runs.values():
        for at in range(0, len(of_run), MOST_ROWS_PER_WRITE):
            some = of_run[at : at + MOST_ROWS_PER_WRITE]
            if chunks and len(chunks[-1]) + len(some) <= ROWS_PER_WRITE:
                chunks[-1] += some
            else:
                chunks.append(some)
    return chunks
