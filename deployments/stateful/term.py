"""The term of a home: its record in the store, and writes that the record fences.

A home begins its term by compare-and-set of the shard's record, and each later write requires that
the record is still byte for byte its own. So a superseded home writes nothing, however late its
last messages arrive.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from deployments.stateful.errors import UnavailableError
from deployments.store import Expected, Store

ALL_TO_COPY = -1
"""Value of ``copied`` while the store lacks rows that it once had."""


class SupersededError(UnavailableError):
    """Another term has the shard, or the store has lost writes of this one; this one must end."""

    def __str__(self) -> str:
        return "The store does not have the term of this home any more"


@dataclass(frozen=True)
class HomeRecord:
    """The record of a shard.

    Attributes:
        term: number of the term; 0 before the first one.
        nonce: names the table.
        process: the home's; "" if the home left the shard and nothing acts for it.
        session: the start of the cluster that the home belongs to.
        lease_s: how long the table may be used after the term was last confirmed; 0 if the file
            lock alone decides.
        copied: number of the table's latest transaction that is in the store with all before it;
            0 before the table was loaded; or ALL_TO_COPY.
        writes: grows with every write, so that no record is ever the same as an earlier one.
    """

    term: int = 0
    nonce: str = ""
    process: str = ""
    session: str = ""
    lease_s: float = 0.0
    copied: int = 0
    writes: int = 0

    def pack(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, row: bytes | None) -> HomeRecord:
        """Return the record in a row; without one, the record before the first term."""
        return cls() if row is None else cls(**json.loads(row))

    def is_same_term(self, other: HomeRecord) -> bool:
        mine = (self.term, self.nonce, self.process)
        return mine == (other.term, other.nonce, other.process)


def record_row(shard: int) -> str:
    """Return the key of a shard's record."""
    return f"home/{shard}"


class Term:
    """One home's term, and its writes, one at a time.

    Every method raises SupersededError when the shard has another term, and StoreUnavailable while
    the store does not answer. After the latter a write may have been made or not, until the next
    write has settled that.

    Attributes:
        record: as this term wrote it last.
    """

    def __init__(self, store: Store, table: str, shard: int) -> None:
        self.record = HomeRecord()
        self._store = store
        self._table = table
        self._row = record_row(shard)
        self._in_doubt = False  # whether the outcome of the last write is unknown
        self._lock = asyncio.Lock()

    async def read(self) -> tuple[HomeRecord, bytes | None]:
        """Return the shard's record, whoever has it, and the row that it is in."""
        stored = await self._store.get(self._table, self._row)
        return HomeRecord.unpack(stored), stored

    async def begin(self, mine: HomeRecord, stored: bytes | None) -> None:
        """Begin the term, if the row is still the one that was read.

        Raises:
            UnavailableError: it is not.
        """
        mine = replace(mine, writes=HomeRecord.unpack(stored).writes + 1)
        if not await self._change({self._row: mine.pack()}, (), stored):
            raise UnavailableError("Another process becomes the home of the shard")
        self.record, self._in_doubt = mine, False

    async def is_mine(self) -> bool:
        """Read from the store whether this term has the shard."""
        known = self.record
        found, _ = await self.read()
        return known.is_same_term(found) and found.writes >= known.writes

    async def write(
        self, puts: Mapping[str, bytes], deletes: Collection[str] = (), **changed: Any
    ) -> None:
        """Write and delete rows, all or none, together with the record.

        Args:
            changed: attributes of the record; ``process=""`` leaves the shard to the next home.
        """
        async with self._lock:
            while self._in_doubt:
                await self._settle()
            if not await self._replace(self.record, self.record.pack(), puts, deletes, changed):
                raise SupersededError

    async def _settle(self) -> None:
        """Make sure that a write whose outcome is unknown cannot be made any more.

        The condition of such a write is one of the records so far, and a compare-and-set of the one
        that is found puts a new one in its place. It fails if the write was made in between.
        """
        found, stored = await self.read()
        if not self.record.is_same_term(found) or found.writes < self.record.writes:
            raise SupersededError
        await self._replace(found, stored, {}, (), {})

    async def _replace(
        self,
        found: HomeRecord,
        stored: bytes | None,
        puts: Mapping[str, bytes],
        deletes: Collection[str],
        changed: Mapping[str, Any],
    ) -> bool:
        self._in_doubt = True
        mine = replace(found, writes=found.writes + 1, **changed)
        held = await self._change({**puts, self._row: mine.pack()}, deletes, stored)
        if held:
            self.record, self._in_doubt = mine, False
        return held

    async def _change(
        self, puts: Mapping[str, bytes], deletes: Collection[str], stored: bytes | None
    ) -> bool:
        condition = Expected(self._row, stored)
        return await self._store.change(self._table, puts, deletes, when=condition)
