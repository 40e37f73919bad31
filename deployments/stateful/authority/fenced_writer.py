"""The authority's page in the store: the row of its partition, and every write under its condition.

The row names the incarnation that may act. An authority takes the partition by compare-and-set, and
each later write is made only while the row is still byte for byte its own: so a life that was
succeeded writes nothing any more, however late its last messages arrive.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from deployments.stateful.layout import Partition, StateStore
from deployments.stateful.protocol import AuthorityUnavailableError, DismissedError
from deployments.store import Expected, StoreUnavailable


class SupersededError(AuthorityUnavailableError):
    """A later life has taken the partition; this one must end."""

    def __init__(self, said: str = "a later life of the state actor has taken its place") -> None:
        super().__init__(said)  # which is passed when it comes from another process


class PartitionRetiredError(DismissedError):
    """The partition is of an earlier layout and was given up; nobody will have it again."""

    def __init__(self, said: str = "The hidden states have moved to another layout") -> None:
        super().__init__(said)


@dataclass(frozen=True)
class LeadershipRecord:
    """What stands in the row of a partition.

    Attributes:
        attempt: grows when the outcome of a write is not known; the write can only have been made
            before that, as its condition does not hold any more.
        session: of the cluster.
        process: of the authority.
        members: replicas that may have a session.
    """

    incarnation: int = 0
    attempt: int = 0
    session: str = ""
    process: str = ""
    members: tuple[str, ...] = ()

    def pack(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, row: bytes) -> LeadershipRecord:
        if not row:
            return cls()  # nobody has sat there yet
        fields = json.loads(row)
        return cls(**fields | {"members": tuple(fields["members"])})


class FencedWriter:
    """Writes for one partition, one at a time.

    Every method raises SupersededError when the partition is another's, and
    AuthorityUnavailableError while the store does not serve; a write may then have been made or
    not.
    """

    def __init__(self, store: StateStore, table: str, partition: Partition) -> None:
        self.store = store
        self.table = table
        self.row = LeadershipRecord()
        self._partition = partition
        self._stored = b""  # the row as it stands in the store
        self._in_doubt = False
        self._turn = asyncio.Lock()

    async def take(self, session: str, process: str) -> LeadershipRecord:
        """Take the partition from whoever had it, and return the row that stood there.

        Raises:
            PartitionRetiredError: it is there no more.
        """
        async with self._turn:
            stored = await self._read()
            if stored is None:
                raise PartitionRetiredError
            before = LeadershipRecord.unpack(stored)
            members = before.members if before.session == session else ()
            mine = LeadershipRecord(before.incarnation + 1, 0, session, process, members)
            if not await self._change({self._partition.row: mine.pack()}, (), stored):
                raise AuthorityUnavailableError("another process takes the partition as well")
            self.row, self._stored, self._in_doubt = mine, mine.pack(), False
            return before

    async def is_mine(self) -> bool:
        """Ask the store whether the partition is still this life's."""
        stored = await self._read()
        return stored is not None and self._is_own(LeadershipRecord.unpack(stored))

    async def write(self, puts: Mapping[str, bytes], deletes: Collection[str] = ()) -> None:
        """Write and delete rows of the table, all or none."""
        async with self._turn:
            await self._write(puts, deletes)

    async def set_members(self, members: tuple[str, ...]) -> None:
        await self._set(members=members)

    async def step_down(self) -> None:
        """Tell the next life that nobody acts here any more, so that it need not wait."""
        await self._set(process="")

    async def _set(self, **changed: Any) -> None:
        async with self._turn:
            await self._settle_doubt()
            mine = replace(self.row, **changed)
            await self._write({self._partition.row: mine.pack()})
            self.row, self._stored = mine, mine.pack()

    async def give_up(self, deletes: Collection[str]) -> None:
        """Leave the partition for good, and delete the rows that served it alone."""
        async with self._turn:
            try:
                await self._write({}, [self._partition.row, *deletes])
            except SupersededError:
                if await self._read() is not None:
                    raise  # otherwise it was given up, by a write that seemed to fail

    async def _write(self, puts: Mapping[str, bytes], deletes: Collection[str] = ()) -> None:
        await self._settle_doubt()
        self._in_doubt = True
        if not await self._change(puts, deletes, self._stored):
            raise SupersededError
        self._in_doubt = False

    async def _settle_doubt(self) -> None:
        """Make sure that a write whose outcome is not known can be made no more."""
        while self._in_doubt:
            stored = await self._read()
            if stored is None:
                raise SupersededError
            found = LeadershipRecord.unpack(stored)
            if not self._is_own(found):
                raise SupersededError
            mine = replace(found, attempt=found.attempt + 1)
            if await self._change({self._partition.row: mine.pack()}, (), stored):
                self.row, self._stored, self._in_doubt = mine, mine.pack(), False

    def _is_own(self, row: LeadershipRecord) -> bool:
        own = (self.row.incarnation, self.row.session, self.row.process)
        return (row.incarnation, row.session, row.process) == own

    async def _read(self) -> bytes | None:
        try:
            return await self.store.get(self.table, self._partition.row)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"the store does not serve: {error}") from error

    async def _change(
        self, puts: Mapping[str, bytes], deletes: Collection[str], stored: bytes
    ) -> bool:
        try:
            condition = Expected(self._partition.row, stored)
            return await self.store.change(self.table, puts, deletes, when=condition)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"the store does not serve: {error}") from error
