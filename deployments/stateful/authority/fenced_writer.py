"""Writes of an authority to the store, fenced by the record of its partition.

The record names the current term. An authority acquires the partition by compare-and-set, and
every later write requires that the record is still byte for byte its own. So a superseded term
writes nothing, however late its last messages arrive.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from deployments.stateful.layout import LAYOUT_ROW, Layout, Partition, StateStore
from deployments.stateful.protocol import AuthorityUnavailableError, DismissedError, Mark
from deployments.stateful.rolled_back import ROLLED_BACK_ROW, StoreRolledBackError
from deployments.store import Expected, StoreUnavailable

ROWS_PER_WRITE = 1000
_AT_THE_SAME_TIME = "Another process acquires the partition at the same time"


class SupersededError(AuthorityUnavailableError):
    """A later term has the partition; this one must end."""

    def __init__(self, text: str = "A later term of the state actor has taken over") -> None:
        super().__init__(text)  # the argument of unpickling


class PartitionRetiredError(DismissedError):
    """The partition belongs to an earlier layout and was retired."""

    def __init__(self, text: str = "The hidden states have moved to another layout") -> None:
        super().__init__(text)


@dataclass(frozen=True)
class LeadershipRecord:
    """The record of a partition.

    Attributes:
        term: of the authority; 0 before the first one.
        attempt: grows when the outcome of a write is unknown. The write can only have been made
            before that, because its condition does not hold any more.
        session: this start of the cluster.
        process: of the authority; "" after it stepped down.
        members: replicas that may have a session.
        lease_s: leader lease of the authority; 0 in records of earlier versions.
        writes: number of writes of every term so far, heartbeats included. Other clusters see from
            it that the authority acts. It never falls, unless the store has been rolled back.
    """

    term: int = 0
    attempt: int = 0
    session: str = ""
    process: str = ""
    members: tuple[str, ...] = ()
    lease_s: float = 0.0
    writes: int = 0

    def pack(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, row: bytes) -> LeadershipRecord:
        if not row:
            return cls()  # no authority has acquired it yet
        values = json.loads(row)
        return cls(
            values.get("term", values.get("incarnation", 0)),  # as protocol 4 names it
            values["attempt"],
            values["session"],
            values["process"],
            tuple(values["members"]),
            values.get("lease_s", 0.0),
            values.get("writes", 0),
        )

    def is_same_term(self, other: LeadershipRecord) -> bool:
        mine = (self.term, self.session, self.process)
        return mine == (other.term, other.session, other.process)


class FencedWriter:
    """Writes for one partition, one at a time.

    Every method raises SupersededError when another term has the partition, StoreRolledBackError
    when the store has lost a write of this term, and AuthorityUnavailableError while the store does
    not answer. After the latter a write may have been made or not, until the next write has settled
    that.

    Attributes:
        record: of the partition, as this term wrote it last.
        inherited: the number of writes of the terms before.
        highest_generation: of all layouts that the cluster is known to have had.
    """

    def __init__(self, store: StateStore, table: str, partition: Partition) -> None:
        self.store = store
        self.table = table
        self.record = LeadershipRecord()
        self.inherited = 0
        self.highest_generation = partition.generation
        self._partition = partition
        self._stored = b""  # the record, byte for byte as in the store
        self._in_doubt = False  # whether the outcome of the last write is unknown
        self._lock = asyncio.Lock()

    async def acquire(
        self,
        session: str,
        process: str,
        lease_s: float = 0.0,
        silent: LeadershipRecord | None = None,
    ) -> LeadershipRecord:
        """Begin a new term, and return the record of the one before.

        Args:
            silent: the only record of another cluster that it may succeed; None: any.

        Raises:
            PartitionRetiredError: the partition does not exist any more.
        """
        async with self._lock:
            stored = await self._read()
            if stored is None:
                if await self._is_rolled_back(None, 0):
                    raise await self._refuse_store(None)
                raise PartitionRetiredError
            before = LeadershipRecord.unpack(stored)
            if silent is not None and before.session != session and before != silent:
                raise AuthorityUnavailableError(_AT_THE_SAME_TIME)
            members = before.members if before.session == session else ()
            mine = LeadershipRecord(
                before.term + 1, 0, session, process, members, lease_s, before.writes + 1
            )
            if not await self._change({self._partition.row: mine.pack()}, (), stored):
                raise AuthorityUnavailableError(_AT_THE_SAME_TIME)
            self._adopt(mine)
            self.inherited = before.writes
            return before

    async def read_layout(self) -> Layout:
        return Layout.unpack(await self._read(LAYOUT_ROW))

    async def is_mine(self) -> bool:
        """Read from the store whether the partition is still this term's."""
        known = self.record.writes
        stored = await self._read()
        if await self._is_rolled_back(stored, known):
            raise await self._refuse_store(stored)
        return stored is not None and self.record.is_same_term(LeadershipRecord.unpack(stored))

    def is_behind(self, seen: Mark) -> bool:
        """Return whether the store lacks a write that a replica has learned of."""
        known = self.record.writes if seen.term == self.record.term else self.inherited
        return seen.writes > known

    async def refuse_store(self) -> StoreRolledBackError:
        """Note in the store that it was rolled back, and return the error."""
        return await self._refuse_store(await self._read())

    async def write(self, puts: Mapping[str, bytes], deletes: Collection[str] = ()) -> None:
        """Write and delete rows of the table, all or none."""
        async with self._lock:
            await self._write(puts, deletes)

    async def delete(self, rows: list[str]) -> None:
        """Delete any number of rows, some in each write."""
        for start in range(0, len(rows), ROWS_PER_WRITE):
            await self.write({}, rows[start : start + ROWS_PER_WRITE])

    async def set_members(self, members: tuple[str, ...]) -> None:
        await self._update(members=members)

    async def beat(self) -> None:
        """Show that this term acts."""
        await self.write({})

    async def step_down(self) -> None:
        """Record that this process acts no more, so that the next term need not wait for it."""
        await self._update(process="")

    async def _update(self, **changed: Any) -> None:
        async with self._lock:
            await self._write({}, **changed)

    async def retire(self, deletes: Collection[str]) -> None:
        """Delete the record, so that no term follows, and rows that served the partition alone."""
        async with self._lock:
            try:
                await self._settle_doubt()
                await self._change_mine({}, [self._partition.row, *deletes])
            except SupersededError:
                if await self._read() is not None:
                    raise  # otherwise an earlier attempt deleted it, although it seemed to fail

    async def _write(
        self, puts: Mapping[str, bytes], deletes: Collection[str] = (), **changed: Any
    ) -> None:
        await self._settle_doubt()
        mine = replace(self.record, writes=self.record.writes + 1, **changed)
        await self._change_mine({**puts, self._partition.row: mine.pack()}, deletes)
        self._adopt(mine)

    async def _change_mine(self, puts: Mapping[str, bytes], deletes: Collection[str]) -> None:
        self._in_doubt = True
        if not await self._change(puts, deletes, self._stored):
            stored = await self._read()
            if await self._is_rolled_back(stored, self.record.writes):
                raise await self._refuse_store(stored)
            raise SupersededError

    async def _is_rolled_back(self, stored: bytes | None, known: int) -> bool:
        """Return whether the store lacks a write of this term, or all of its layout.

        Args:
            stored: the record of the partition.
            known: number of writes that had been made before it was read.
        """
        if stored is not None:
            return LeadershipRecord.unpack(stored).writes < known
        return (await self.read_layout()).generation < self._partition.generation

    async def _refuse_store(self, stored: bytes | None) -> StoreRolledBackError:
        """Note in the store that it was rolled back, and return the error.

        Args:
            stored: the record of the partition. It gets another term, so that no process acts
                under it: a changed attempt would not do, because its own process adopts that.
        """
        puts = {ROLLED_BACK_ROW: str(self.highest_generation).encode()}
        if stored is not None:
            found = LeadershipRecord.unpack(stored)
            puts[self._partition.row] = replace(found, term=found.term + 1).pack()
        if not await self._change(puts, (), stored):
            raise AuthorityUnavailableError("The store changes while it is found rolled back")
        return StoreRolledBackError()

    async def _settle_doubt(self) -> None:
        """Make sure that a write whose outcome is unknown cannot be made any more.

        While the doubt lasts, the store holds either the record from before the write or the one
        that the write put there. A compare-and-set of whichever is found, to the next attempt,
        invalidates the condition of the write. It fails only if the write was made in between, and
        then the loop reads again.
        """
        while self._in_doubt:
            stored = await self._read()
            if await self._is_rolled_back(stored, self.record.writes):
                raise await self._refuse_store(stored)
            found = LeadershipRecord.unpack(stored) if stored is not None else None
            if found is None or not self.record.is_same_term(found):
                raise SupersededError
            mine = replace(found, attempt=found.attempt + 1)
            if await self._change({self._partition.row: mine.pack()}, (), stored):
                self._adopt(mine)

    def _adopt(self, mine: LeadershipRecord) -> None:
        self.record, self._stored, self._in_doubt = mine, mine.pack(), False

    async def _read(self, row: str = "") -> bytes | None:
        try:
            return await self.store.get(self.table, row or self._partition.row)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"The store is unavailable: {error}") from error

    async def _change(
        self, puts: Mapping[str, bytes], deletes: Collection[str], stored: bytes | None
    ) -> bool:
        try:
            condition = Expected(self._partition.row, stored)
            return await self.store.change(self.table, puts, deletes, when=condition)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"The store is unavailable: {error}") from error
