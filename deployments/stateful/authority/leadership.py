"""The partition of one authority: how it comes into it, may act in it, and leaves it."""

from __future__ import annotations

from collections.abc import Callable

from deployments.inference.options import InferenceOptions
from deployments.stateful.authority.cluster import Cluster
from deployments.stateful.authority.fenced_writer import FencedWriter, LeadershipRecord
from deployments.stateful.authority.leader_lease import LeaderLease
from deployments.stateful.authority.resets import Resets
from deployments.stateful.authority.rows import (
    Copy,
    key_of,
    resets_prefix,
    stamp_of,
    unpack_copy,
    unpack_epoch,
)
from deployments.stateful.authority.table import StateTable
from deployments.stateful.authority.takeover import (
    wait_for_earlier_layouts,
    wait_for_predecessor,
)
from deployments.stateful.authority.write_behind import ROWS_PER_WRITE, Copies
from deployments.stateful.layout import Partition, StateStore
from deployments.stateful.protocol import AuthorityUnavailableError, DismissedError, Key
from deployments.store import StoreUnavailable


class Leadership:
    """Whether the authority may act, and the store's part in it.

    Attributes:
        writer: for writes under the condition that the partition is still this life's.
        leader_lease: how long that is certain.
    """

    def __init__(
        self,
        store: StateStore,
        table: str,
        partition: Partition,
        cluster: Cluster,
        options: InferenceOptions,
        clock: Callable[[], float],
    ) -> None:
        self.writer = FencedWriter(store, table, partition)
        self.leader_lease = LeaderLease(self.writer, cluster, options.leader_lease_s, clock)
        self._partition = partition
        self._cluster = cluster
        self._options = options
        self._clock = clock
        self._taken_at = 0.0
        self._opened = False
        self._closed = False
        self._left = False

    # Coming

    async def take(self) -> LeadershipRecord:
        """Take the partition, and return the row of whoever had it before.

        Raises:
            AuthorityUnavailableError: the store does not serve, or the cluster has started a later
                life of this authority.
        """
        if not await self._cluster.is_current():
            raise AuthorityUnavailableError("the cluster has started another state actor")
        taken_at = self._clock()
        before = await self.writer.take(self._cluster.session, self._cluster.process)
        self._taken_at = self._clock()
        self.leader_lease.begin(taken_at)
        return before

    async def wait_for_takeover(self, before: LeadershipRecord) -> None:
        """Return when nobody of an earlier life or layout can act any more."""
        until = self._taken_at + self._options.leader_lease_s + self._options.lease_margin_s
        await wait_for_predecessor(before, self._cluster, until, self._clock)
        await wait_for_earlier_layouts(self._partition, self.writer, self._cluster)

    async def load(self, table: StateTable, resets: Resets, copies: Copies) -> None:
        """Read the copies and resets of this partition; have copies that are void erased."""
        stamp = None
        if not self._options.restore_after_restart:
            stamp = stamp_of(self._cluster.session)
        mine = resets_prefix(self._partition)
        found: list[tuple[Key, Copy | None]] = []
        garbage: list[str] = []
        try:
            async for row, value in self.writer.store.scan(self.writer.table):
                if (key := key_of(row)) is not None:
                    if self._partition.has(key):
                        found.append((key, unpack_copy(value, stamp)))
                elif row.startswith(mine):
                    resets.restore(row.removeprefix(mine), unpack_epoch(value))
                elif row.startswith("reset/") and _generation(row) < self._partition.generation:
                    garbage.append(row)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"the store does not serve: {error}") from error
        for key, copy in found:  # a copy may have been written behind its reset
            if copy is None or resets.voids(key.run, copy.version.epoch):
                copies.erase(key)
            else:
                table.restore(key, copy)
        for start in range(0, len(garbage), ROWS_PER_WRITE):
            await self.writer.write({}, garbage[start : start + ROWS_PER_WRITE])

    def open(self) -> None:
        """Begin to act."""
        self._opened = True

    @property
    def first_epoch(self) -> int:
        """A number above every epoch of earlier lives, and of earlier layouts (invariant 2)."""
        return (self._partition.generation << 32 | self.writer.row.incarnation) << 32

    # Acting

    def may_act(self) -> bool:
        return self._opened and not self._left and self.leader_lease.certain

    def require(self) -> None:
        """Check that nobody can have succeeded this life.

        Raises:
            AuthorityUnavailableError: that is not certain now.
        """
        if not self.may_act():
            raise AuthorityUnavailableError("the state actor cannot tell whether it may still act")

    def require_open(self, generation: int | None = None) -> None:
        """Check, too, that the partition is not being given up.

        Raises:
            DismissedError: it is, or the caller is of another layout.
        """
        self.require()
        if self._closed or generation not in (None, self._partition.generation):
            raise DismissedError("The hidden states have moved to another layout")

    # Leaving

    def close(self) -> None:
        self._closed = True

    async def step_down(self) -> None:
        """Leave the partition to the next life; from here on nobody is heard."""
        self.require()
        self._left = True
        await self.writer.step_down()

    async def give_up(self, rows: list[str]) -> None:
        """Leave the partition for good; from here on nobody is heard.

        Args:
            rows: that served it alone.
        """
        self._left = False  # an attempt before may have failed
        self.require()
        self._left = True
        for start in range(0, max(0, len(rows) - ROWS_PER_WRITE), ROWS_PER_WRITE):
            await self.writer.write({}, rows[start : start + ROWS_PER_WRITE])
        await self.writer.give_up(rows[-ROWS_PER_WRITE:])


def _generation(row: str) -> int:
    return int(row.split("/")[1])
