"""Eviction of states: to reset a run, to expire an idle one, or to retire the partition."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from deployments.aio import BackgroundTasks
from deployments.stateful.authority.fenced_writer import ROWS_PER_WRITE, FencedWriter
from deployments.stateful.authority.ownership import Ownership
from deployments.stateful.authority.snapshots import Snapshot, SnapshotWriter, snapshot_row
from deployments.stateful.authority.table import Evictor, StateRecord, StateTable
from deployments.stateful.layout import Partition
from deployments.stateful.protocol import Key

NOTHING: Mapping[Key, Snapshot] = MappingProxyType({})
_PREFIX = "reset/"
_EPOCH_BYTES = 16
RECORDS_PER_TURN = 2000
"""Of a large run, in one turn of the event loop: leases are renewed in between."""
MAX_EXPIRING = 500
"""Runs at once. Their first turns are one turn of the event loop."""


class _Void(NamedTuple):
    epoch: int
    noted_at: float


class Resets:
    """Keeps, in memory and in the store, the epoch under which each run was last cleared."""

    def __init__(
        self,
        writer: FencedWriter,
        snapshots: SnapshotWriter,
        partition: Partition,
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._snapshots = snapshots
        self._prefix = f"{_PREFIX}{partition.generation}/{partition.shard}/"
        self._generation = partition.generation
        self._clock = clock
        self._void: OrderedDict[str, _Void] = OrderedDict()  # in the order of noting
        self._being_written: dict[str, int] = {}  # epochs by run

    def restore(self, row: str, value: bytes) -> bool:
        """Adopt a row of this partition; return False if the row is of another kind."""
        if not row.startswith(self._prefix):
            return False
        self.note(row.removeprefix(self._prefix), int.from_bytes(value, "little"))
        return True

    def is_obsolete(self, row: str) -> bool:
        """Return whether a row belongs to a partition of an earlier layout."""
        return row.startswith(_PREFIX) and int(row.split("/")[1]) < self._generation

    def note(self, run: str, epoch: int) -> None:
        """Void every copy of a run with this epoch or an earlier one."""
        self._void[run] = _Void(epoch, self._clock())
        self._void.move_to_end(run)

    def voids(self, run: str, epoch: int) -> bool:
        """Return whether a copy with this epoch was cleared, or is being cleared now.

        A claim that arrives while its reset is being written must not bring the state back: no
        record of it existed when the run was recalled.
        """
        void = self._void.get(run)
        cleared = self._being_written.get(run, 0 if void is None else void.epoch)
        return epoch <= cleared

    async def write(self, run: str, epoch: int, keys: list[Key]) -> None:
        """Write a reset, and erase the snapshots that it voids.

        One reset of a run is written at a time. The snapshots of a large run are erased in several
        writes, because the store has a deadline for each. Snapshots of other runs may be written
        between them.

        Args:
            keys: of the run; none of them is committed meanwhile.
        """
        self._being_written[run] = epoch
        packed = epoch.to_bytes(_EPOCH_BYTES, "little")
        erased = list(map(snapshot_row, keys))
        try:
            # No snapshot from before the reset may be written after it.
            async with self._snapshots.writing:
                await self._writer.write({self._prefix + run: packed}, erased[:ROWS_PER_WRITE])
                for key in keys:
                    self._snapshots.forget(key)
            await self._writer.delete(erased[ROWS_PER_WRITE:])
            self.note(run, epoch)
        finally:
            del self._being_written[run]

    @property
    def rows(self) -> list[str]:
        return [self._prefix + run for run in self._void]

    async def prune(self, keep_s: float) -> None:
        """Remove resets that claims do not need any more.

        Args:
            keep_s: a claim to states that were unused for so long is marked as expired, and
                restores no state that was cleared.
        """
        too_old = self._clock() - keep_s
        old: list[str] = []
        for run, void in self._void.items():
            if void.noted_at >= too_old or len(old) == ROWS_PER_WRITE:
                break
            if run not in self._being_written:
                old.append(run)
        if old:
            for run in old:
                del self._void[run]
            await self._writer.delete([self._prefix + run for run in old])


class KeyedLocks:
    """A lock for each name, kept only while a task holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._users[name] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._locks[name], self._users[name]

    def __len__(self) -> int:
        return len(self._locks)


class Eviction:
    """Recalls states from their owners and clears them, one eviction of a run at a time.

    Args:
        resets: notes what is void, before the response.
        background: runs the expiry of idle runs.
    """

    def __init__(
        self,
        table: StateTable,
        ownership: Ownership,
        resets: Resets,
        snapshots: SnapshotWriter,
        background: BackgroundTasks,
    ) -> None:
        self._table = table
        self._ownership = ownership
        self._resets = resets
        self._snapshots = snapshots
        self._background = background
        self._locks = KeyedLocks()
        self._expiring: set[str] = set()
        self._retiring = Evictor()  # owns what take_all has taken

    async def reset(self, run: str, states: Mapping[Key, Snapshot] = NOTHING) -> None:
        """Clear a run; return when the store has recorded it.

        Args:
            states: that the run begins with, instead of initial ones; of their versions, the steps.

        Raises:
            AuthorityUnavailableError: the store is unavailable. The states are as they were, but a
                later term may find them cleared.
        """
        async with self._locks.hold(run):
            evictor, records, written = Evictor(), [], False
            try:
                while not written:
                    records += await self._take_run(run, evictor)
                    epoch = self._table.next_epoch()
                    keys = [record.key for record in records]
                    await self._resets.write(run, epoch, keys)
                    # A replica may own a state by now that is to go on from another one.
                    written = not (states and self._not_taken(self._table.of_run(run), evictor))
            except BaseException:
                for record in records:
                    self._ownership.release(record)
                raise
            # Whatever becomes of the caller, the store has the reset.
            clearing = asyncio.ensure_future(self._clear(records, evictor, epoch, states))
            await asyncio.shield(clearing)

    async def read(self, run: str) -> dict[Key, Snapshot]:
        """Return every state of a run but initial ones, all as of one moment."""
        async with self._locks.hold(run):
            records = await self._take_run(run, Evictor())
            states = {
                each.key: Snapshot(each.version, each.state, each.receipts)
                for each in records
                if each.state is not None
            }
            for record in records:
                self._ownership.free(record)
            return states

    def expire(self, idle_since: float) -> None:
        """Begin to remove the runs that were not used since that moment, the oldest first."""
        for run in self._table.idle_runs(idle_since):
            if len(self._expiring) == MAX_EXPIRING:
                return
            if run not in self._expiring:
                self._expiring.add(run)
                self._background.spawn(self._expire(run, idle_since))

    async def _expire(self, run: str, idle_since: float) -> None:
        try:
            async with self._locks.hold(run):
                evictor = Evictor()
                records = await self._take_run(run, evictor)
                if records and not self._table.used_since(run, idle_since):
                    epoch = self._table.next_epoch()
                    self._resets.note(run, epoch)
                    for record in records:
                        self._snapshots.put(record.key, None)
                    await self._clear(records, evictor, epoch)
                    return
                for record in records:  # it was used while they were recalled
                    self._ownership.free(record)
        finally:
            self._expiring.discard(run)

    async def take_all(self) -> None:
        """Take every state permanently, after the evictions that are under way."""
        while more := self._not_taken(self._table, self._retiring):
            async with asyncio.TaskGroup() as group:
                for run in dict.fromkeys(record.key.run for record in more):
                    group.create_task(self._take_for_good(run))

    async def _take_for_good(self, run: str) -> None:
        async with self._locks.hold(run):  # or two evictions would wait for each other's states
            more = self._not_taken(self._table.of_run(run), self._retiring)
            await self._ownership.take(more, self._retiring)

    def _not_taken(self, records: Iterable[StateRecord], evictor: Evictor) -> list[StateRecord]:
        return [record for record in records if record.owner is not evictor]

    @property
    def has_all(self) -> bool:
        return not self._not_taken(self._table, self._retiring)

    async def _take_run(self, run: str, evictor: Evictor) -> list[StateRecord]:
        """Take every state of a run from its owner, including those created meanwhile."""
        records: list[StateRecord] = []
        try:
            while more := self._not_taken(self._table.of_run(run), evictor):
                for some in _turns(more):
                    await self._ownership.take(some, evictor)
                    records += some
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            for record in records:
                self._ownership.release(record)
            raise
        return records

    async def _clear(
        self,
        records: list[StateRecord],
        evictor: Evictor,
        epoch: int,
        states: Mapping[Key, Snapshot] = NOTHING,
    ) -> None:
        """Clear records, begin the states, and then free the records."""
        await _in_turns(records, partial(self._clear_one, evictor, epoch))
        for key, state in states.items():
            self._table.begin(key, state)
        await _in_turns(records, self._free)

    def _clear_one(self, evictor: Evictor, epoch: int, record: StateRecord) -> None:
        assert record.owner is evictor, "invariant 6: what is cleared was recalled"
        self._table.clear(record, epoch)

    def _free(self, record: StateRecord) -> None:
        self._ownership.free(record)
        if record.owner is None and record.state is None:
            self._table.remove(record)


def _turns(records: list[StateRecord]) -> Iterator[list[StateRecord]]:
    return (records[at : at + RECORDS_PER_TURN] for at in range(0, len(records), RECORDS_PER_TURN))


async def _in_turns(records: list[StateRecord], do: Callable[[StateRecord], None]) -> None:
    for some in _turns(records):
        for record in some:
            do(record)
        await asyncio.sleep(0)
