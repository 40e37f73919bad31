"""The authority over hidden states: who owns which, and what was committed last.

A replica that owns a state steps its own copy without asking; the authority grants each state to
one replica at a time (an exclusive lease as in Gray and Cheriton, "Leases", SOSP 1989) and refuses
commits of anyone else. This class is plain asyncio and runs in one event loop;
:mod:`deployments.stateful.ray.actor` puts it into a Ray actor. The rules that it keeps stand in
:mod:`deployments.stateful.protocol`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from functools import partial

from deployments.inference.options import InferenceOptions
from deployments.log import RateLimitedLogger
from deployments.stateful.authority.background import BackgroundTasks
from deployments.stateful.authority.cluster import Cluster
from deployments.stateful.authority.eviction import Eviction
from deployments.stateful.authority.leadership import Leadership
from deployments.stateful.authority.ownership import Ownership
from deployments.stateful.authority.recovery import Recovery
from deployments.stateful.authority.resets import Resets
from deployments.stateful.authority.rows import Copy, stamp_of
from deployments.stateful.authority.sessions import Sessions, refuse_other_protocols
from deployments.stateful.authority.table import StateTable
from deployments.stateful.authority.write_behind import NoCopies, WriteBehind
from deployments.stateful.boottime import boottime
from deployments.stateful.layout import Partition, StateStore
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    Key,
    OpenedSession,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
)

logger = logging.getLogger("ray.serve")

SWEEP_PERIOD_S = 0.1
LONGEST_RETRY_AFTER_S = 300
GIVEN_BACK_S = 60.0  # replicas claim what they gave back half as long ago, whatever the run's time


class HiddenStateAuthority:
    """Implements :class:`~deployments.stateful.protocol.Authority` for one partition.

    Args:
        options: times and bounds.
        store, table: where the row of the partition, resets and copies are.
        cluster: asked which processes live.
        on_end: told when this life must end: it was succeeded, its partition was given up, or a
            background loop has died.

    Attributes:
        recovery_s: from the start of this life to when it acted, 0 until then.
    """

    def __init__(
        self,
        options: InferenceOptions,
        store: StateStore,
        table: str,
        partition: Partition,
        cluster: Cluster,
        on_end: Callable[[BaseException], None],
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._options = options
        self._clock = clock
        self._background = BackgroundTasks()
        self._leadership = Leadership(store, table, partition, cluster, options, clock)
        writer = self._leadership.writer
        self._copies = (
            WriteBehind(writer, stamp_of(cluster.session), options.durable)
            if options.snapshots
            else NoCopies()
        )
        self._table = StateTable(self._copies, clock)
        self._ownership = Ownership(
            self._table, self._background, cluster, options.probe_after_s, self._leadership.may_act
        )
        keep_s = options.run_ttl_s + self._grace_s + GIVEN_BACK_S
        self._resets = Resets(writer, partition, keep_s, clock)
        self._recovery = Recovery(self._table, self._ownership, self._resets, cluster, clock)
        self._eviction = Eviction(self._table, self._ownership, self._resets, self._background)
        self._sessions = Sessions(
            self._leadership, self._ownership, self._recovery, self._grace_s, clock
        )
        self._on_end = on_end
        self._log = RateLimitedLogger("New hidden states")
        self.recovery_s = 0.0
        self._starting: asyncio.Task[None] | None = None
        self._giving_up: asyncio.Task[None] | None = None

    @property
    def _grace_s(self) -> float:
        return self._options.lease_s + self._options.lease_margin_s

    @property
    def n_states(self) -> int:
        return len(self._table)

    @property
    def life(self) -> int:
        """How many lives this partition has had, this one included; 0 before it was taken."""
        return self._leadership.writer.row.incarnation

    @property
    def max_states(self) -> int:
        return self._options.max_states_per_shard

    def configure(self, options: InferenceOptions) -> None:
        """Take over new bounds; the terms of the layout stay, because replicas count on them."""
        terms = {"lease_s", "lease_margin_s", "leader_lease_s", "shards", "durable", "snapshots"}
        kept = {name: getattr(self._options, name) for name in terms}
        self._options = options.model_copy(update=kept)

    # Life

    async def start(self) -> None:
        """Take the partition and read what the store has kept, once; whatever needs states waits.

        Raises:
            AuthorityUnavailableError: not now; the next call tries again.
            PartitionRetiredError: never again.
        """
        if self._starting is None or (self._starting.done() and self._starting.exception()):
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        leadership, started_at = self._leadership, self._clock()
        self._background.cancel()  # of an attempt before
        before = await leadership.take()
        self._background.supervise(leadership.leader_lease.keep(), self._on_end)
        await leadership.wait_for_takeover(before)
        await leadership.load(self._table, self._resets, self._copies)
        await leadership.leader_lease.confirm()  # reading much takes long
        self._table.last_epoch = max(self._table.last_epoch, leadership.first_epoch)
        self._recovery.begin(leadership.writer.row.members, self._clock() + self._grace_s)
        if isinstance(self._copies, WriteBehind):
            period_s = self._options.snapshot_period_s
            self._background.supervise(self._copies.run(period_s), self._on_end)
        self._background.supervise(self._recovery.probe(), self._on_end)
        self._background.supervise(self._sweep_forever(), self._on_end)
        leadership.open()
        self._background.spawn(self._tell_of_recovery(started_at))

    async def _tell_of_recovery(self, started_at: float) -> None:
        await self._recovery.over()
        self.recovery_s = self._clock() - started_at
        logger.info(
            "Life %d of the state actor acts %.2f s after its start: %s; %d hidden states",
            self.life,
            self.recovery_s,
            self._recovery,
            self.n_states,
        )

    async def _sweep_forever(self) -> None:
        while True:
            self.sweep()
            if self._leadership.may_act():
                with contextlib.suppress(AuthorityUnavailableError):  # it is garbage only
                    await self._resets.prune()
            await asyncio.sleep(SWEEP_PERIOD_S)

    def sweep(self) -> None:
        """End sessions whose lease has run out, forget idle runs; to be called often."""
        if not self._leadership.may_act():
            return
        self._sessions.end_expired()
        self._eviction.expire(idle_since=self._clock() - self._options.run_ttl_s)

    async def give_up(self) -> None:
        """Take every state back, write it, and leave the partition to the next layout for good."""
        await self.start()
        if self._giving_up is None or (self._giving_up.done() and self._giving_up.exception()):
            self._giving_up = asyncio.create_task(self._give_up())
        await asyncio.shield(self._giving_up)

    async def _give_up(self) -> None:
        self._leadership.close()
        await self._recovery.over()
        taken = False
        while not taken:
            await self._eviction.take_all()
            await self._copies.flush()
            taken = self._eviction.has_all  # or a late claim has brought more meanwhile
        await self._leadership.give_up(self._resets.rows)
        self.stop()  # or the leader_lease's end would be taken for a succession

    async def step_down(self) -> None:
        """Leave the partition to the next life, which begins as after a death, but at once.

        Raises:
            AuthorityUnavailableError: not now; this life goes on.
        """
        self._leadership.require_open()
        await self._recovery.over()
        await self._copies.flush()
        await self._leadership.writer.is_mine()  # the store serves
        self._leadership.require_open()
        try:
            await self._leadership.step_down()
        except BaseException as error:  # nobody knows whether the next life has been told
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
        session = await self._sessions.open(hello)
        return OpenedSession(session.number, self._options.lease_s)

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        mine = self._sessions.find_claiming(session)
        wanted = self._recovery.take_over(mine, part)
        if not part.last:
            return Claimed(wanted)
        renew = partial(self._sessions.find_claiming, session)
        async with self._recovery.heard(mine.replica, renew) as mine:
            named = [*mine.claimed, *mine.offered]
            lost = self._recovery.settle(mine)
        await self._make_durable(named)
        return Claimed(wanted, lost)

    async def listen(self, session: int) -> list[Key]:
        mine = self._sessions.renew(session)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.listen_s):
                await mine.recalled.wait()
        mine.recalled.clear()
        self._sessions.renew(session)
        return list(mine.recalls)  # with those that were sent before and not yet answered

    async def close_session(self, session: int) -> None:
        mine = self._sessions.renew(session)
        await self._copies.flush()
        self._sessions.end(mine)

    # Ownership

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        self._sessions.renew(session).calls.take(call)
        await self._recovery.over()
        mine = self._sessions.renew(session)
        self._leadership.require_open()
        if self._table.get(key) is None and self.n_states >= self._options.max_states_per_shard:
            raise self._no_place_for(key)
        record = self._table.obtain(key)
        if record.owner is mine:
            raise StaleSessionError(f"session {session} already owns {key}")
        self._table.use(record)
        await self._ownership.take([record], mine)
        try:
            if record.receipts:  # its next owner answers from them, as from committed steps
                await self._make_durable([key])
        except BaseException:
            if record.owner is mine:
                self._ownership.release(record)
            raise
        self._leadership.require()
        if record.owner is not mine:
            raise StaleSessionError(f"session {session} has ended")
        self._table.begin_epoch(record)
        self._ownership.recall_if_wanted(record)
        return Grant(record.version, record.hidden, record.receipts)

    def _no_place_for(self, key: Key) -> TooManyStatesError:
        expires_at = self._table.longest_unused_since + self._options.run_ttl_s
        wait_s = min(max(1, math.ceil(expires_at - self._clock())), LONGEST_RETRY_AFTER_S)
        error = TooManyStatesError(self.n_states, wait_s)
        self._log.warning("refused", "%s", error, **key._asdict())
        return error

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        mine = self._sessions.renew(session)
        mine.calls.take(call)
        refused: list[Key] = []
        for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
            record = mine.owned.get(key)
            if record is None or record.version.epoch != version.epoch:
                refused.append(key)
            else:
                self._table.commit(record, Copy(version, hidden, states.receipts.get(key, ())))
        for key in released:
            if key in mine.owned:
                self._ownership.release(mine.owned[key])
        await self._make_durable(states.keys)
        return refused

    async def _make_durable(self, changed: list[Key]) -> None:
        if self._options.durable and changed:
            await self._copies.flush()

    # The life of a run

    async def reset(self, session: int, run: str, call: int) -> None:
        self._sessions.renew(session).calls.take(call)
        self._leadership.require_open()
        await self._recovery.over()
        await self._eviction.reset(run)
        self._leadership.require()
