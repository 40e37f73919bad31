"""The home of a shard: it decides who may change the table, and copies the changes to the store.

Replicas change the table without the home. It is one process of the cluster, begins a term in the
store, and lets the table be used for as long as the term is certainly the latest. If the store is
local to the machine, the lock of the table's folder ensures that already; otherwise the home
confirms its term again and again, and an earlier home's table is out of use before a later one's is
used.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import gt
from typing import Any, Protocol

from deployments.aio import BackgroundTasks
from deployments.stateful.errors import OutcomeUnknownError, UnavailableError
from deployments.stateful.files import OwnedFiles
from deployments.stateful.options import StateOptions
from deployments.stateful.shards import (
    LAYOUT_ROW,
    LEASE_S,
    MARGIN,
    Layout,
    OtherLayoutError,
    await_end,
    copy_row,
    name_of_copy,
    shard_of,
)
from deployments.stateful.table import Listed, Table, boot_clock
from deployments.stateful.term import ALL_TO_COPY, HomeRecord, StateStore, SupersededError, Term
from deployments.store import StoreUnavailable

logger = logging.getLogger("ray.serve")

ROWS_PER_WRITE = 512
MOST_ROWS_PER_WRITE = 8 * ROWS_PER_WRITE
COPIED_TIMEOUT_S = 4.0
LONGEST_EVICTION_PERIOD_S = 30.0
_PAUSE_S = 0.1

InThread = Callable[..., Awaitable[Any]]


class Cluster(Protocol):
    """What a home asks the cluster that it runs in.

    Attributes:
        session: names this start of the cluster.
        process: names the home's process.
    """

    session: str
    process: str

    async def has_ended(self, process: str) -> bool:
        """Return whether a process is known to have ended."""

    async def is_current(self) -> bool:
        """Return whether the cluster knows this process, and no later one, as the shard's home.

        Raises:
            UnavailableError: the cluster does not answer.
        """


class Home:
    """The home of a shard, in one event loop.

    Args:
        files: of the shard, which this process has locked.
        table: the application's in the store.
        on_end: called when this process must end: the shard has another term, or a background loop
            has failed.
        in_thread: calls a function that blocks, and returns what it returns.

    Attributes:
        ready: whether the term has begun, and the table is complete.
    """

    def __init__(
        self,
        files: OwnedFiles,
        store: StateStore,
        table: str,
        layout: Layout,
        shard: int,
        options: StateOptions,
        cluster: Cluster,
        on_end: Callable[[BaseException], None],
        in_thread: InThread = asyncio.to_thread,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self.files = files
        self.layout = layout
        self.ready = False
        self._store = store
        self._store_table = table
        self._shard = shard
        self._options = options
        self._cluster = cluster
        self._in_thread = in_thread
        self._clock = clock
        self._on_end = on_end
        self._lease_s = 0.0 if store.is_local else LEASE_S
        self._term = Term(store, table, shard)
        self._before = HomeRecord()
        self._seen = 0  # number of the latest transaction whose changes are in the next line
        self._changed: set[bytes] = set()  # names of rows to copy
        self._copied_at = self._wrote_at = clock()
        self._working = asyncio.Lock()  # with the table, in a thread
        self._leaving = False
        self._wanted = asyncio.Event()  # a copy, at once
        self._after_copy = asyncio.Event()
        self._background = BackgroundTasks()

    @property
    def table(self) -> Table:
        return self.files.table

    @property
    def term(self) -> int:
        return self._term.record.term

    @property
    def copy_lag_s(self) -> float:
        """Age of the copies in the store, which have all that changed before."""
        return self._clock() - self._copied_at

    @property
    def max_states(self) -> int:
        return max(1, self._options.max_states // self.layout.shards)

    async def configure(self, options: StateOptions) -> None:
        """Adopt new limits and periods."""
        self._options = options
        if self.ready:
            await self._in_thread(self.table.set_limit, self.max_states)

    # Beginning

    async def start(self) -> None:
        """Begin the term, complete the table, and let it be used.

        Raises:
            StoreUnavailable, UnavailableError: not now; it can be called again.
        """
        is_own = await self._begin()
        began_at, form = self._clock(), self.files.form
        if not is_own:
            await self._write({}, copied=await self._load())
        # Not earlier: with a term that the store has lost, the table counts, and must be complete.
        await self._in_thread(self.files.remember_term, self.term)
        if self._before.process and self._before.nonce != form.nonce:
            until = began_at + self._before.lease_s * MARGIN
            while self._clock() < until:
                await asyncio.sleep(_PAUSE_S)
        copied = self._term.record.copied
        self._seen = self.table.page.copied = max(copied, 0)
        await self._in_thread(self.table.set_limit, self.max_states)
        if copied == ALL_TO_COPY:
            logger.warning("The store has lost copies of hidden states; all are copied again")
            self._changed = await self._names()
        await self._confirm()
        self.ready = True
        for loop in (self._confirm_forever(), self._copy_forever(), self._evict_forever()):
            self._background.supervise(loop, self._end)

    async def _begin(self) -> bool:
        """Begin the term; return whether the table of this machine goes on."""
        files, cluster = self.files, self._cluster
        found, stored = await self._term.read()
        is_lost = found.term < files.form.term  # then the table has more than the store
        is_latest = is_lost or (found.nonce == files.form.nonce and found.copied != 0)
        is_own = is_latest and not files.is_new and files.form.tag == self.layout.tag
        if not self._store.is_local:
            if not is_own and found.session not in ("", cluster.session):
                at = self._store, self._store_table, self._shard
                found, stored = await await_end(*at, cluster.has_ended)
            if not await cluster.is_current():
                raise UnavailableError("The cluster has started another home of the shard")
        # After the record, which changes with it.
        layout = await self._store.get(self._store_table, LAYOUT_ROW)
        if layout != self.layout.pack():
            raise OtherLayoutError
        if not is_own and (not files.is_new or self.table.counts()[0]):
            self.table.page.valid_until = 0.0
            await self._in_thread(files.begin_anew)
        if found.process != cluster.process:
            self._before = found
        term = max(found.term, files.form.term) + 1
        copied = 0 if not is_own else ALL_TO_COPY if is_lost else found.copied
        mine = HomeRecord(
            term, files.form.nonce, cluster.process, cluster.session, self._lease_s, copied
        )
        await self._term.begin(mine, stored)
        return is_own

    async def _load(self) -> int:
        """Load the copies of this shard, and return the number of the latest transaction."""
        form, rows = self.table.form, dict[bytes, bytes]()
        at = form.dtype.fields["used"][1]  # type: ignore[index]
        now = int(self._clock()).to_bytes(4, "little")  # they were used by another clock
        async for name, value in self._copies():
            if len(value) == form.size:
                rows[name] = value[:at] + now + value[at + 4 :]
            if len(rows) == ROWS_PER_WRITE:
                await self._in_thread(self.table.load, rows)
                rows = {}
        await self._in_thread(self.table.load, rows)
        number: int = (await self._in_thread(self.table.changed, 0))[0]
        return number

    async def _copies(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield name and value of each copy of this shard."""
        async for row, value in self._store.scan(self._store_table):
            name = name_of_copy(row)
            if name is not None:
                run = name.partition(b"\0")[0].decode()
                if shard_of(run, self.layout.shards) == self._shard:
                    yield name, value

    # Acting

    async def _confirm(self) -> None:
        """Let the table be used for another while, if this term is the latest.

        Raises:
            SupersededError: it is not.
        """
        if self._store.is_local:
            self._allow(math.inf)
            return
        asked_at = self._clock()
        try:
            async with asyncio.timeout(LEASE_S / 4):  # a store that hangs is unavailable
                mine = await self._term.is_mine()
        except (StoreUnavailable, TimeoutError):
            asked_at = self._clock()
            try:
                mine = await self._cluster.is_current()
            except UnavailableError:
                return
        if not mine:
            raise SupersededError
        self._allow(asked_at + LEASE_S)

    def _allow(self, until: float) -> None:
        if not self._leaving:
            self.table.page.valid_until = until

    async def _confirm_forever(self) -> None:
        while not self._store.is_local:
            await asyncio.sleep(LEASE_S / 4)
            await self._confirm()

    def _end(self, error: BaseException) -> None:
        self._leaving = True
        self.table.page.valid_until = 0.0
        self._on_end(error)

    # Copies

    async def copied(self, number: int) -> None:
        """Return when a transaction is in the store, with all before it.

        Raises:
            OutcomeUnknownError: it was not, within 4 s.
        """
        try:
            async with asyncio.timeout(COPIED_TIMEOUT_S):
                for _ in range(3):  # copies: of one under way, of the next, and of the last
                    if self.table.page.copied >= number:
                        return
                    self._wanted.set()
                    await self._after_copy.wait()
        except TimeoutError:
            pass
        if self.table.page.copied < number:
            raise OutcomeUnknownError

    async def flush(self) -> None:
        """Copy all that has changed until now.

        Raises:
            StoreUnavailable: not all was copied; the rest follows with the next copy.
        """
        async with self._working:
            began_at = self._clock()
            await self._collect()
            number, names = self._seen, self._changed
            self._changed = set()
            try:
                chunks = await self._in_thread(divide, names)
                while chunks:
                    chunk = chunks.pop()
                    puts, deletes = await self._in_thread(self._copy, chunk)
                    await self._write(puts, deletes, copied=None if chunks else number)
                    names.difference_update(chunk)
                    if chunks:
                        await self._collect()
            finally:
                self._changed |= names
            self.table.page.copied, self._copied_at = number, began_at
        self._after_copy.set()
        self._after_copy = asyncio.Event()

    async def _collect(self) -> None:
        """Note what has changed, so that the table may forget it."""
        latest, names = await self._in_thread(self.table.changed, self._seen)
        self._changed |= await self._names() if names is None else names
        self._seen = latest

    async def _names(self) -> set[bytes]:
        """Return the names of all rows of the table, and of all copies."""
        names, after = set[bytes](), b""
        while listed := await self._in_thread(self.table.list, after):
            names.update(row.name for row in listed)
            after = listed[-1].name
        async for name, _ in self._copies():
            names.add(name)
        return names

    def _copy(self, names: Sequence[bytes]) -> tuple[dict[str, bytes], list[str]]:
        rows = self.table.get(names)
        return (
            {copy_row(name): row for name, row in rows.items()},
            [copy_row(name) for name in names if name not in rows],
        )

    async def _write(
        self,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        copied: int | None = None,
    ) -> None:
        await self._term.write(puts, deletes, copied)
        self._wrote_at = self._clock()

    async def _copy_forever(self) -> None:
        while True:
            period_s = self._options.snapshot_period_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(period_s, LEASE_S / 2)):
                    await self._wanted.wait()
            try:
                if self._wanted.is_set() or self.copy_lag_s >= period_s:
                    self._wanted.clear()
                    await self.flush()
                else:
                    async with self._working:
                        await self._collect()
                if not self._store.is_local and self._clock() - self._wrote_at >= LEASE_S / 2:
                    await self._write({})  # other clusters see that this one acts
            except StoreUnavailable:  # which the store logs
                await asyncio.sleep(_PAUSE_S)
                self._wanted.set()

    # Eviction

    async def _evict_forever(self) -> None:
        while True:
            async with self._working:
                await self._in_thread(self.table.free_stale_readers)
                await self._in_thread(self.table.keep_reserve)
            await asyncio.sleep(min(self._options.run_ttl_s / 4, LONGEST_EVICTION_PERIOD_S))
            with contextlib.suppress(UnavailableError):  # while the table must not be used
                await self.evict()

    async def evict(self) -> int:
        """Remove the runs all of whose rows are idle; return the number of rows removed.

        Raises:
            UnavailableError: the table must not be used now.
        """
        # a second of use has passed only when the next one has begun
        idle_since, removed = self._clock() - self._options.run_ttl_s - 1, 0
        rows, more = list[Listed](), True
        while more:
            async with self._working:
                page = await self._in_thread(self.table.list, rows[-1].name if rows else b"")
            rows, more = rows + page, bool(page)
            last = _run_of(rows[-1]) if more else b""  # it may go on in the next page
            idle = [
                [row.name for row in of_run]
                for run, of_run in _by_run(rows)
                if run != last and all(row.used < idle_since for row in of_run)
            ]
            rows = [row for row in rows if _run_of(row) == last]
            for names in idle:
                async with self._working:
                    is_idle = partial(gt, idle_since)
                    removed += await self._in_thread(self.table.evict, names, is_idle)
        return removed

    # Ending

    async def leave(self) -> None:
        """Stop the use of the table, copy what has changed, and leave the shard to the next home.

        Raises:
            StoreUnavailable: this home goes on, or has ended.
        """
        await self.flush()  # most of it, while the table is in use
        self._leaving = True
        self.table.page.valid_until = 0.0
        await self._in_thread(self.table.set_limit, self.max_states)  # after the last transaction
        try:
            await self.flush()
        except StoreUnavailable:
            self._leaving = False
            await self._confirm()
            raise
        try:
            await self._term.step_down()
        except StoreUnavailable as error:  # perhaps another home has begun already
            self._end(error)
            raise
        self.stop()
        async with self._working:  # nothing uses the table any more
            self.ready = False

    def stop(self) -> None:
        """Stop the background loops."""
        self._background.cancel()


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


def _run_of(row: Listed) -> bytes:
    return row.name.partition(b"\0")[0]


def _by_run(rows: Sequence[Listed]) -> list[tuple[bytes, list[Listed]]]:
    return [(run, list(of_run)) for run, of_run in groupby(rows, _run_of)]
