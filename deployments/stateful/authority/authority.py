"""The authority over states: it decides who owns which, and what was committed last.

A replica that owns a state steps its own copy without a message. The authority grants each state
to one replica at a time (an exclusive lease as in Gray and Cheriton, "Leases", SOSP 1989) and
refuses commits of any other. This class is plain asyncio and runs in one event loop;
:mod:`deployments.stateful.ray.actor` puts it into a Ray actor. :mod:`deployments.stateful.protocol`
has the rules that it keeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import NoReturn

import numpy as np

from deployments.aio import BackgroundTasks
from deployments.log import RateLimitedLogger
from deployments.stateful.authority.eviction import Eviction, Resets
from deployments.stateful.authority.fenced_writer import FencedWriter
from deployments.stateful.authority.leadership import Leadership
from deployments.stateful.authority.ownership import Ownership
from deployments.stateful.authority.recovery import Recovery
from deployments.stateful.authority.sessions import Sessions, refuse_other_protocols
from deployments.stateful.authority.snapshots import Snapshot, SnapshotWriter, cluster_stamp
from deployments.stateful.authority.table import StateRecord, StateTable
from deployments.stateful.layout import Cluster, Partition, StateStore
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    Key,
    Mark,
    OpenedSession,
    RunSummary,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
    lease_clock,
)

logger = logging.getLogger("ray.serve")

SWEEP_PERIOD_S = 0.1
LONGEST_RETRY_AFTER_S = 300
RELEASED_S = 60.0  # replicas claim what they released for half of it, whatever the run's TTL is


class StateAuthority:
    """Implements :class:`~deployments.stateful.protocol.Authority` for one partition.

    Args:
        options: times and limits.
        store, table: where the record of the partition, resets and snapshots are.
        cluster: knows which processes are alive.
        state_bytes: size of one state.
        on_end: called when this process must end: a later term has the partition, the partition
            was retired, or a background loop has failed.

    Attributes:
        recovery_s: from the start of this term until it acted, 0 until then.
    """

    def __init__(
        self,
        options: StateOptions,
        store: StateStore,
        table: str,
        partition: Partition,
        cluster: Cluster,
        state_bytes: int,
        on_end: Callable[[BaseException], None],
        clock: Callable[[], float] = lease_clock,
    ) -> None:
        self._options = options
        self._clock = clock
        self._state_bytes = state_bytes
        self._background = BackgroundTasks()
        writer = FencedWriter(store, table, partition)
        self._leadership = Leadership(writer, partition, cluster, options, clock)
        stamp = cluster_stamp(cluster.session)
        self._snapshots = SnapshotWriter(writer, stamp, options.commits_reach_store)
        self._table = StateTable(self._snapshots, clock)
        self._ownership = Ownership(
            self._table, self._background, cluster, self._leadership.may_act
        )
        self._resets = Resets(writer, self._snapshots, partition, clock)
        self._longest_ttl_s = options.run_ttl_s  # so far; replicas may have any of them
        self._recovery = Recovery(self._table, self._ownership, self._resets, cluster, clock)
        self._eviction = Eviction(
            self._table, self._ownership, self._resets, self._snapshots, self._background
        )
        self._sessions = Sessions(
            self._leadership, self._ownership, self._recovery, self._grace_s, clock
        )
        self._on_end = on_end
        self._log = RateLimitedLogger("New hidden states")
        self.recovery_s = 0.0
        self._starting: asyncio.Task[None] | None = None
        self._retiring: asyncio.Task[None] | None = None

    @property
    def _grace_s(self) -> float:
        return self._options.lease_s + self._options.lease_margin_s

    @property
    def n_states(self) -> int:
        return len(self._table)

    @property
    def is_used(self) -> bool:
        """Whether a replica has a session."""
        return bool(self._ownership.sessions)

    @property
    def term(self) -> int:
        """This term's number; 0 before the partition was acquired."""
        return self._leadership.term

    @property
    def max_states(self) -> int:
        return self._options.max_states_per_shard

    def configure(self, options: StateOptions) -> None:
        """Adopt new limits; what replicas of this layout rely on stays."""
        terms = {"lease_s", "shards", "durability"}
        kept = {name: getattr(self._options, name) for name in terms}
        self._options = options.model_copy(update=kept)
        self._longest_ttl_s = max(self._longest_ttl_s, options.run_ttl_s)

    # The term

    async def start(self) -> None:
        """Acquire the partition and read the store, once; every call waits for it.

        Raises:
            AuthorityUnavailableError: not now; the next call tries again.
            PartitionRetiredError: never again.
        """
        if self._starting is None or (self._starting.done() and self._starting.exception()):
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        leadership, started_at = self._leadership, self._clock()
        self._background.cancel()  # of an earlier attempt
        await leadership.acquire(self._keep_lease)
        await leadership.load(self._table, self._resets, self._snapshots, self._state_bytes)
        await leadership.lease.renew()  # reading many states takes long
        self._table.last_epoch = max(self._table.last_epoch, leadership.first_epoch)
        self._recovery.begin(leadership.members, self._clock() + self._grace_s)
        period_s = self._options.snapshot_period_s
        for loop in (self._snapshots.run(period_s), self._recovery.probe(), self._sweep_forever()):
            self._background.supervise(loop, self._on_end)
        leadership.open()
        self._background.spawn(self._report_recovery(started_at))

    def _keep_lease(self) -> None:
        for loop in (self._leadership.lease.keep(), self._leadership.lease.beat()):
            self._background.supervise(loop, self._on_end)

    async def _report_recovery(self, started_at: float) -> None:
        await self._recovery.over()
        self.recovery_s = self._clock() - started_at
        logger.info(
            "The state actor acts in term %d, %.2f s after its start: %s; %d hidden states",
            self.term,
            self.recovery_s,
            self._recovery,
            self.n_states,
        )

    async def _sweep_forever(self) -> None:
        while True:
            self.sweep()
            if self._leadership.may_act():
                with contextlib.suppress(AuthorityUnavailableError):  # pruning is not urgent
                    await self._resets.prune(self._longest_ttl_s + self._grace_s + RELEASED_S)
            await asyncio.sleep(SWEEP_PERIOD_S)

    def sweep(self) -> None:
        """End sessions with an expired lease, and remove idle runs."""
        if not self._leadership.may_act():
            return
        self._sessions.end_expired()
        self._eviction.expire(idle_since=self._clock() - self._options.run_ttl_s)

    async def retire(self) -> None:
        """Take every state back, write it, and leave the partition to the next layout."""
        await self.start()
        if self._retiring is None or (self._retiring.done() and self._retiring.exception()):
            self._retiring = asyncio.create_task(self._retire())
        await asyncio.shield(self._retiring)

    async def _retire(self) -> None:
        self._leadership.begin_to_retire()
        await self._recovery.over()
        taken = False
        while not taken:
            await self._eviction.take_all()
            await self._snapshots.flush()
            taken = self._eviction.has_all  # a late claim may have brought more meanwhile
        await self._leadership.retire(self._resets.rows)
        self.stop()  # or the lease's end would look like a later term

    async def step_down(self) -> None:
        """Leave the partition to the next term, which need not wait for this process.

        Raises:
            AuthorityUnavailableError: not now; this term continues.
        """
        self._leadership.require_open()
        await self._recovery.over()
        await self._snapshots.flush()
        await self._leadership.writer.is_mine()  # fails unless the store serves
        self._leadership.require_open()
        try:
            await self._leadership.step_down()
        except BaseException as error:  # it is unknown whether the store has it
            self._on_end(error)
            raise
        self.stop()

    def stop(self) -> None:
        """Stop the background loops."""
        self._background.cancel()

    # Sessions

    async def open_session(self, hello: Hello) -> OpenedSession:
        refuse_other_protocols(hello)
        await self.start()
        if self._leadership.writer.is_behind(hello.seen):
            await self._end_behind()
        session = await self._sessions.open(hello)
        return OpenedSession(session.number, self._options.lease_s)

    async def _end_behind(self) -> NoReturn:
        """End this term, which began from a store that had lost writes.

        Raises:
            StoreRolledBackError: this is noted in the store.
            AuthorityUnavailableError: the store does not answer; a replica tells the next term.
        """
        self._leadership.end()  # before the store has answered: other replicas may know nothing
        try:
            raise await self._leadership.writer.refuse_store()
        except BaseException as error:  # its caller may leave before the store has answered
            self._on_end(error)
            raise

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        mine = self._sessions.find_claiming(session)
        wanted = self._recovery.receive(mine, part)
        if not part.last:
            return Claimed(wanted)
        renew = partial(self._sessions.find_claiming, session)
        async with self._recovery.claimed(mine.replica, renew) as mine:
            named = [*mine.claimed, *mine.released]
            lost = self._recovery.settle(mine)
        await self._wait_for_store(named)
        return Claimed(wanted, lost)

    async def listen(self, session: int) -> list[Key]:
        mine = self._sessions.renew(session)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.listen_s):
                await mine.recalled.wait()
        mine.recalled.clear()
        self._sessions.renew(session)
        return list(mine.recalls)  # including those that were sent before and not answered yet

    async def poll(self, session: int) -> tuple[list[Key], Mark]:
        """Listen; return how far the store is written, too."""
        recalls = await self.listen(session)
        return recalls, self._leadership.mark

    async def close_session(self, session: int) -> None:
        mine = self._sessions.renew(session)
        await self._snapshots.flush()
        self._sessions.end(mine)

    # Ownership

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        """Grant a state to a session.

        Each await may end the session, or this term, so what follows it checks again:

        1. ``recovery.over``: claims are settled, and the table has the latest versions.
        2. ``ownership.take``: the session is the owner, or it ended and this raises.
        3. The store has the state, if commits reach it. The next owner counts every earlier step as
           committed: otherwise its responses would leave although a crash undoes what they follow
           from. On failure the state goes to the next in the queue.
        4. Only then the epoch begins, and nothing is awaited before the grant is returned.
        """
        self._sessions.renew(session).calls.accept(call)
        await self._recovery.over()
        mine = self._sessions.renew(session)
        self._leadership.require_open()
        record = self._obtain(key)
        if record.owner is mine:
            raise StaleSessionError(f"Session {session} already owns {key}")
        self._table.use(record)
        await self._ownership.take([record], mine)
        try:
            if record.state is not None:
                await self._wait_for_store([key])
        except BaseException:
            if record.owner is mine:
                self._ownership.release(record)
            raise
        self._leadership.require()
        if record.owner is not mine:
            raise StaleSessionError(f"Session {session} has ended")
        self._table.begin_epoch(record)
        self._ownership.recall_if_wanted(record)
        return Grant(record.version, record.state, record.receipts)

    def _obtain(self, key: Key) -> StateRecord:
        """Return the record of a key, unless it would be one too many."""
        if self._table.get(key) is None:
            self._refuse_beyond_limit([key])
        return self._table.obtain(key)

    def _refuse_beyond_limit(self, new: list[Key]) -> None:
        if new and self.n_states + len(new) > self.max_states:
            expires_at = self._table.longest_unused_since + self._options.run_ttl_s
            wait_s = min(max(1, math.ceil(expires_at - self._clock())), LONGEST_RETRY_AFTER_S)
            error = TooManyStatesError(self.n_states, wait_s)
            self._log.warning("refused", "%s", error, **new[0]._asdict())
            raise error

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        mine = self._sessions.renew(session)
        mine.calls.accept(call)
        refused: list[Key] = []
        for key, version, state in zip(states.keys, states.versions, states.states, strict=True):
            record = mine.owned.get(key)
            if record is None or record.version.epoch != version.epoch:
                refused.append(key)
            else:
                receipts = states.receipts.get(key, ())
                self._table.commit(record, Snapshot(version, state.tobytes(), receipts))
        for key in released:
            if key in mine.owned:
                self._ownership.release(mine.owned[key])
        await self._wait_for_store(states.keys)
        return refused

    async def _wait_for_store(self, changed: list[Key]) -> None:
        if self._options.commits_reach_store and changed:
            await self._snapshots.flush()

    # Runs

    async def reset(self, session: int, run: str, call: int) -> None:
        await self.write(session, run, StateBatch(), call)

    async def write(self, session: int, run: str, states: StateBatch, call: int) -> None:
        self._sessions.renew(session).calls.accept(call)
        self._leadership.require_open()
        await self._recovery.over()
        self._refuse_beyond_limit([key for key in states.keys if self._table.get(key) is None])
        written = {
            key: Snapshot(version, state.tobytes(), ())
            for key, version, state in zip(states.keys, states.versions, states.states, strict=True)
        }
        await self._eviction.reset(run, written)
        if written:
            await self._snapshots.flush()
        self._leadership.require()

    async def read(self, session: int, run: str) -> StateBatch:
        self._sessions.renew(session)
        self._leadership.require_open()
        await self._recovery.over()
        states = await self._eviction.read(run)
        await self._wait_for_store(list(states))
        self._leadership.require()
        packed = b"".join(each.state or b"" for each in states.values())
        return StateBatch(
            list(states),
            [each.version for each in states.values()],
            np.frombuffer(packed, np.uint8).reshape(len(states), -1 if states else 0),
        )

    async def runs(self, session: int, limit: int) -> list[RunSummary]:
        self._sessions.renew(session)
        self._leadership.require_open()
        await self._recovery.over()
        return self._table.latest_runs(limit)
