"""Leadership of a partition: how a term begins, may act, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from deployments.stateful.authority.eviction import Resets
from deployments.stateful.authority.fenced_writer import (
    ROWS_PER_WRITE,
    FencedWriter,
    LeadershipRecord,
    SupersededError,
)
from deployments.stateful.authority.other_clusters import await_silence
from deployments.stateful.authority.snapshots import (
    Snapshot,
    SnapshotWriter,
    cluster_stamp,
    has_stamp,
    key_of,
    snapshot_row,
)
from deployments.stateful.authority.table import StateTable
from deployments.stateful.layout import Cluster, Partition
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import AuthorityUnavailableError, DismissedError, Key, Mark
from deployments.stateful.rolled_back import refuse_rolled_back
from deployments.store import Expected, StoreUnavailable

logger = logging.getLogger("ray.serve")

_PAUSE_S = 0.1


def _term_name(partition: Partition, term: int | str = "") -> str:
    """Return the name under which the cluster remembers a term, or how those of all begin."""
    return f"term/{partition.generation}/{partition.shard}/{term}"


class LeaderLease:
    """The right to act, confirmed again and again.

    A later term acquires the partition in the store, and then waits for ``duration_s`` unless it
    knows that this process has ended (invariant 8). So a process that has seen its own term in the
    store may act for that long. While the store is unavailable, the cluster is asked instead: a
    successor that it has not started cannot have acquired the partition.
    """

    def __init__(
        self,
        writer: FencedWriter,
        cluster: Cluster,
        duration_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._cluster = cluster
        self._duration_s = duration_s
        self._clock = clock
        self._until = -1.0

    @property
    def is_valid(self) -> bool:
        return self._clock() < self._until

    def begin(self, acquired_at: float) -> None:
        """Count from a moment before the partition was acquired."""
        self._until = acquired_at + self._duration_s

    async def keep(self) -> None:
        """Renew until cancelled.

        Raises:
            SupersededError: a later term has the partition.
        """
        while True:
            await asyncio.sleep(self._duration_s / 4)
            await self.renew()

    async def beat(self) -> None:
        """Show until cancelled that this term acts; whether it may is for ``keep`` to find out."""
        while True:
            await asyncio.sleep(self._duration_s / 2)
            with contextlib.suppress(AuthorityUnavailableError, TimeoutError):
                async with asyncio.timeout(self._duration_s / 2):
                    await self._writer.beat()

    async def renew(self) -> None:
        """Confirm the term, and count from before that.

        Raises:
            SupersededError: a later term has the partition.
        """
        asked_at = self._clock()
        try:
            async with asyncio.timeout(self._duration_s / 4):  # a store that hangs is unavailable
                mine = await self._writer.is_mine()
        except (AuthorityUnavailableError, TimeoutError):
            asked_at = self._clock()
            try:
                mine = await self._cluster.is_current()
            except AuthorityUnavailableError:
                return
        if not mine:
            raise SupersededError
        self._until = asked_at + self._duration_s


class Leadership:
    """One term's standing in its partition.

    Attributes:
        writer: for writes that only the current term can make.
        lease: how long this term is certainly current.
    """

    def __init__(
        self,
        writer: FencedWriter,
        partition: Partition,
        cluster: Cluster,
        options: StateOptions,
        clock: Callable[[], float],
    ) -> None:
        self.writer = writer
        self.lease = LeaderLease(writer, cluster, options.leader_lease_s, clock)
        self._partition = partition
        self._cluster = cluster
        self._options = options
        self._clock = clock
        self._opened = False
        self._retiring = False
        self._ended = False

    @property
    def term(self) -> int:
        """This term's number; 0 before the partition was acquired."""
        return self.writer.record.term

    @property
    def mark(self) -> Mark:
        return Mark(self.term, self.writer.record.writes)

    @property
    def members(self) -> tuple[str, ...]:
        return self.writer.record.members

    @property
    def first_epoch(self) -> int:
        """A number above every epoch of earlier terms and layouts (invariant 2)."""
        return (self._partition.generation << 32 | self.term) << 32

    # Beginning

    async def acquire(self, on_acquired: Callable[[], None]) -> None:
        """Acquire the partition; return when no earlier term or layout can act any more.

        Args:
            on_acquired: called before that, to keep the lease from here on.

        Raises:
            AuthorityUnavailableError: the store is unavailable, or the cluster has started a later
                process for this partition.
            ClusterClaimedError: another cluster has it.
            StoreRolledBackError: the store has lost writes.
        """
        if not await self._cluster.is_current():
            raise AuthorityUnavailableError("The cluster has started another state actor")
        try:
            await refuse_rolled_back(self.writer.store, self.writer.table)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"The store is unavailable: {error}") from error
        silent = await self._await_silence(self._partition)
        asked_at = self._clock()
        before = await self.writer.acquire(
            self._cluster.session,
            self._cluster.process,
            self._options.leader_lease_s,
            silent,
        )
        acquired_at = self._clock()
        self.lease.begin(asked_at)
        on_acquired()
        await self._refuse_lost_terms()
        await self._wait_for_predecessor(before, acquired_at)
        await self._wait_for_earlier_layouts()

    async def _refuse_lost_terms(self) -> None:
        """Check that the store has lost no term or layout that this cluster remembers.

        Raises:
            StoreRolledBackError: it has lost one.
            AuthorityUnavailableError: the store or the cluster does not answer.
        """
        cluster, layout = self._cluster, await self.writer.read_layout()
        first_process = await cluster.note(_term_name(self._partition, self.term), cluster.process)
        first_id = await cluster.note(f"layout/{layout.generation}", layout.id)
        layouts = await cluster.noted("layout/")
        highest = max(int(each.rpartition("/")[2]) for each in layouts)
        self.writer.highest_generation = max(self.writer.highest_generation, highest)
        # It may have changed before the highest was noted.
        present = await self.writer.read_layout()
        lost_term = first_process != cluster.process
        if lost_term or first_id != layout.id or present.generation < highest:
            raise await self.writer.refuse_store()

    async def _wait_for_predecessor(self, before: LeadershipRecord, acquired_at: float) -> None:
        """Return when the process of the term before has ended, or its leader lease has.

        Replicas of another cluster are no members here, so their leases are waited for, too.
        """
        is_ours = before.session in ("", self._cluster.session)
        if is_ours and not before.process:
            return
        lease_s = (before.lease_s or self._options.leader_lease_s) + self._options.lease_margin_s
        until = acquired_at + (lease_s if is_ours else 2 * lease_s)
        while self._clock() < until:
            if before.process and await self._cluster.has_ended(before.process):
                return
            await asyncio.sleep(_PAUSE_S)

    async def _wait_for_earlier_layouts(self) -> None:
        """Return when every partition of an earlier layout is retired."""
        try:
            for partition in (await self.writer.read_layout()).earlier:
                if partition.generation >= self._partition.generation:
                    continue  # the present layout is a later one, and waits for this partition
                while not await self._is_retired(partition):
                    await asyncio.sleep(_PAUSE_S)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"The store is unavailable: {error}") from error

    async def _is_retired(self, partition: Partition) -> bool:
        store, table = self.writer.store, self.writer.table
        stored = await store.get(table, partition.row)
        if stored is None:
            return True
        await self._await_silence(partition)
        is_ours = LeadershipRecord.unpack(stored).session == self._cluster.session
        # If its record was lost, the cluster remembers its terms.
        if not is_ours and not await self._cluster.noted(_term_name(partition)):
            unchanged = Expected(partition.row, stored)
            return await store.change(table, {}, [partition.row], when=unchanged)
        try:
            await self._cluster.retire(partition)
        except AuthorityUnavailableError as error:
            logger.info("Waiting for %s of an earlier layout: %s", partition, error)
        return False

    async def _await_silence(self, partition: Partition) -> LeadershipRecord:
        """Return the record when no other cluster shows that it has the partition."""
        store, table, cluster = self.writer.store, self.writer.table, self._cluster
        lease_s = self._options.leader_lease_s
        try:
            return await await_silence(
                store, table, partition, cluster.session, cluster.has_ended, lease_s
            )
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"The store is unavailable: {error}") from error

    async def load(
        self, table: StateTable, resets: Resets, snapshots: SnapshotWriter, state_bytes: int
    ) -> None:
        """Read the snapshots and resets of this partition; erase snapshots that are void.

        They are erased before this term acts: a later start of the cluster may restore snapshots.

        Raises:
            AuthorityUnavailableError: the store is unavailable.
        """
        restores = self._options.restores
        stamp = cluster_stamp(self._cluster.session)
        found: list[tuple[Key, Snapshot | None, bool]] = []  # True: of this start of the cluster
        erased: list[str] = []
        try:
            async for row, value in self.writer.store.scan(self.writer.table):
                if (key := key_of(row)) is not None:
                    if self._partition.has(key):
                        is_own = has_stamp(value, stamp)
                        is_kept = restores or is_own
                        snapshot = Snapshot.unpack(value, state_bytes) if is_kept else None
                        found.append((key, snapshot, is_own))
                elif not resets.restore(row, value) and resets.is_obsolete(row):
                    erased.append(row)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"The store is unavailable: {error}") from error
        for key, snapshot, is_own in found:
            if snapshot is None or resets.voids(key.run, snapshot.version.epoch):
                erased.append(snapshot_row(key))
                continue
            table.restore(key, snapshot)
            if not is_own:  # from now on it is kept whatever the options of the next term are
                snapshots.put(key, snapshot)
        await self.writer.delete(erased)

    def open(self) -> None:
        """Begin to act."""
        self._opened = True

    # Acting

    def may_act(self) -> bool:
        return self._opened and not self._ended and self.lease.is_valid

    def require(self) -> None:
        """Check that this term is certainly current.

        Raises:
            AuthorityUnavailableError: that is not certain now.
        """
        if not self.may_act():
            raise AuthorityUnavailableError("The state actor is not sure that its term is current")

    def require_open(self, generation: int | None = None) -> None:
        """Check, too, that the partition is not being retired.

        Raises:
            DismissedError: it is, or the caller has another layout.
        """
        self.require()
        if self._retiring or generation not in (None, self._partition.generation):
            raise DismissedError("The hidden states have moved to another layout")

    # Ending

    def begin_to_retire(self) -> None:
        """Refuse new members and grants; existing members may still commit."""
        self._retiring = True

    def end(self) -> None:
        """Refuse every call from here on."""
        self._ended = True

    async def step_down(self) -> None:
        """Leave the partition to the next term; every call is refused from here on."""
        self.require()
        self.end()
        await self.writer.step_down()

    async def retire(self, resets: list[str]) -> None:
        """Leave the partition permanently; every call is refused from now on.

        Args:
            resets: rows that served this partition alone.
        """
        self._ended = False  # an earlier attempt may have failed
        self.require()
        self.end()
        await self.writer.delete(resets[:-ROWS_PER_WRITE])
        await self.writer.retire(resets[-ROWS_PER_WRITE:])
