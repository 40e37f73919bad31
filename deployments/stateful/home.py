"""The home of a shard: it decides who may change the table, and has the changes copied.

Replicas change the table without the home. It is one process of the cluster, begins a term in the
store, and lets the table be used for as long as the term is certainly the latest. If the store is
local to the machine, the lock of the table's folder ensures that already; otherwise the home
confirms its term again and again, and an earlier home's table is out of use before a later one's is
used.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from functools import partial
from operator import gt
from typing import Any, Protocol

from deployments.aio import BackgroundTasks
from deployments.stateful.copies import Copies, InThread
from deployments.stateful.errors import UnavailableError
from deployments.stateful.files import OwnedFiles
from deployments.stateful.options import StateOptions
from deployments.stateful.page import boot_clock
from deployments.stateful.row import key_of
from deployments.stateful.shards import (
    LAYOUT_ROW,
    LEASE_S,
    MARGIN,
    Layout,
    OtherLayoutError,
    await_end,
)
from deployments.stateful.table import Table, runs_in
from deployments.stateful.term import ALL_TO_COPY, HomeRecord, SupersededError, Term
from deployments.store import Store, StoreUnavailable

LONGEST_EVICTION_PERIOD_S = 30.0
_PAUSE_S = 0.1
_POLL_S = 0.25
_OUTAGE_PAUSE_S = 0.5


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
        store_table: the application's in the store.
        on_end: called when this process must end: the shard has another term, or a background loop
            has failed.
        in_thread: calls a function that blocks, and returns what it returns.

    Attributes:
        ready: whether the term has begun, and the table is complete.
    """

    def __init__(
        self,
        files: OwnedFiles,
        store: Store,
        store_table: str,
        layout: Layout,
        shard: int,
        options: StateOptions,
        cluster: Cluster,
        on_end: Callable[[BaseException], None],
        in_thread: InThread = asyncio.to_thread,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self.files = files
        self.ready = False
        self._store, self._store_table, self._shard = store, store_table, shard
        self._layout = layout
        self._options = options
        self._cluster = cluster
        self._on_end = on_end
        self._in_thread = in_thread
        self._clock = clock
        self._term = Term(store, store_table, shard)
        self._before = HomeRecord()
        place = shard, layout.shards
        self._copies = Copies(store, store_table, self._term, place, in_thread, clock)
        self._leaving = False
        self._background = BackgroundTasks()
        self.copied, self.flush = self._copies.copied, self._copies.flush

    @property
    def table(self) -> Table:
        return self.files.table

    @property
    def term(self) -> int:
        return self._term.record.term

    @property
    def copy_lag_s(self) -> float:
        return self._copies.lag_s

    async def configure(self, options: StateOptions) -> None:
        """Adopt new limits and periods."""
        self._options = options
        if self.ready:
            await self._set_limit()

    async def _set_limit(self) -> None:
        await self._in_thread(self.table.set_limit, self._options.max_states_per_shard)

    # Beginning

    async def start(self) -> None:
        """Begin the term, complete the table, and let it be used.

        Raises:
            StoreUnavailable, UnavailableError: not now; it can be called again.
        """
        if self._leaving:
            raise UnavailableError("This home leaves the shard")
        is_own = await self._begin()
        self._copies.table = self.table
        began_at = self._clock()
        if not is_own:
            await self._copies.load()
        # Not earlier: with a term that the store has lost, the table counts, and must be complete.
        await self._in_thread(self.files.remember_term, self.term)
        if self._before.process and self._before.nonce != self.files.form.nonce:
            while self._clock() < began_at + self._before.lease_s * MARGIN:
                await asyncio.sleep(_PAUSE_S)
        await self._copies.begin()
        await self._set_limit()
        await self._confirm()
        self.ready = True
        for loop in (self._confirm_forever(), self._copy_forever(), self._evict_forever()):
            self._background.spawn(loop, self._end)

    async def _begin(self) -> bool:
        """Begin the term; return whether the table of this machine goes on."""
        files, cluster, at = self.files, self._cluster, (self._store, self._store_table)
        found, stored = await self._term.read()
        is_lost = found.term < files.form.term  # then the table has more than the store
        is_latest = is_lost or (found.nonce == files.form.nonce and found.copied != 0)
        is_own = is_latest and files.form.tag == self._layout.tag
        if not self._store.is_local:
            if not is_own and found.session not in ("", cluster.session):
                found, stored = await await_end(*at, self._shard, cluster.has_ended)
            if not await cluster.is_current():
                raise UnavailableError("The cluster has started another home of the shard")
        # After the record, which changes with it.
        if await self._store.get(self._store_table, LAYOUT_ROW) != self._layout.pack():
            raise OtherLayoutError
        if not is_own and (not files.is_new or self.table.counts()[0]):
            self.table.page.valid_until = 0.0
            await self._in_thread(files.begin_anew)
        if found.process != cluster.process:
            self._before = found
        mine = HomeRecord(
            term=max(found.term, files.form.term) + 1,
            nonce=files.form.nonce,
            process=cluster.process,
            session=cluster.session,
            lease_s=0.0 if self._store.is_local else LEASE_S,
            copied=0 if not is_own else ALL_TO_COPY if is_lost else found.copied,
        )
        await self._term.begin(mine, stored)
        return is_own

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

    async def _copy_forever(self) -> None:
        copies = self._copies
        while True:
            period_s = self._options.snapshot_period_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(period_s, _POLL_S)):
                    await copies.wanted.wait()
            try:
                is_due = copies.lag_s >= period_s or self.table.page.log_is_filling
                if copies.wanted.is_set() or is_due:
                    copies.wanted.clear()
                    await copies.flush()
                if not self._store.is_local and self._clock() - copies.wrote_at >= LEASE_S / 2:
                    await copies.write({})  # other clusters see that this one acts
            except StoreUnavailable:  # which the store logs
                await asyncio.sleep(_OUTAGE_PAUSE_S)
                copies.wanted.set()

    # Eviction

    async def _evict_forever(self) -> None:
        while True:
            await self._in_turn(self.table.free_stale_readers)
            await self._in_turn(self.table.keep_reserve)
            await asyncio.sleep(min(self._options.run_ttl_s / 4, LONGEST_EVICTION_PERIOD_S))
            with contextlib.suppress(UnavailableError):  # while the table must not be used
                # a second of use has passed only when the next one has begun
                await self._evict(self._clock() - self._options.run_ttl_s - 1)

    async def _evict(self, idle_since: float) -> None:
        """Remove the runs all of whose rows are idle."""
        async for rows in runs_in(partial(self._in_turn, self.table.list)):
            if all(row.used < idle_since for row in rows):
                run = key_of(rows[0].name).run.encode()
                await self._in_turn(self.table.evict, run, partial(gt, idle_since))

    async def _in_turn(self, work: Callable[..., Any], *arguments: Any) -> Any:
        async with self._copies.at_work:
            return await self._in_thread(work, *arguments)

    # Ending

    def _end(self, error: BaseException) -> None:
        self.stop()
        self._on_end(error)

    def stop(self) -> None:
        """Stop the use of the table, without a copy of what has changed."""
        self._leaving = True
        self.table.page.valid_until = 0.0
        self._background.cancel()

    async def leave(self) -> None:
        """Stop the use of the table, copy what has changed, and leave the shard to the next home.

        Raises:
            StoreUnavailable: this home goes on, or has ended.
        """
        await self.flush()  # most of it, while the table is in use
        self._leaving = True
        self.table.page.valid_until = 0.0
        await self._set_limit()  # after the last transaction
        try:
            await self.flush()
        except StoreUnavailable:
            self._leaving = False
            await self._confirm()
            raise
        try:
            await self._term.write({}, process="")
        except (StoreUnavailable, SupersededError) as error:  # another home may have begun
            self._end(error)
            raise
        self.stop()
        async with self._copies.at_work:  # nothing uses the table any more
            self.ready = False
