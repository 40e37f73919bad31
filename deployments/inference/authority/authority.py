"""The authority over hidden states: who owns which, and what was committed last.

A replica that owns a state steps its own copy without asking; the authority grants each state to
one replica at a time (an exclusive lease as in Gray and Cheriton, "Leases", SOSP 1989) and refuses
commits of anyone else. This class is plain asyncio and runs in one event loop;
:mod:`deployments.inference.wire.actor` puts it into a Ray actor. The rules that it keeps stand in
:mod:`deployments.inference.protocol`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from deployments.inference.authority.background import BackgroundTasks
from deployments.inference.authority.forgetting import Forgetting
from deployments.inference.authority.ownership import IsAlive, Ownership
from deployments.inference.authority.recovery import Recovery
from deployments.inference.authority.snapshots import NoSnapshots, Snapshots
from deployments.inference.authority.table import Session, StateTable
from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import (
    Claim,
    Grant,
    Key,
    OpenedSession,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
)

logger = logging.getLogger(__name__)


class HiddenStateAuthority:
    """Implements :class:`~deployments.inference.protocol.Authority`.

    Numbers of sessions and epochs start at the time of the start, so those of an earlier life are
    never taken for its own.

    Args:
        options: times and bounds.
        snapshots: where copies of the states go, for a restart.
        is_alive: asked about an owner that does not answer a recall; False breaks its lease at
            once.
        restarted: an earlier life may still have owners; wait for their claims.
    """

    def __init__(
        self,
        options: InferenceOptions,
        snapshots: Snapshots | None = None,
        is_alive: IsAlive | None = None,
        restarted: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.incarnation = time.time_ns()
        self._options = options
        self._snapshots = snapshots or NoSnapshots()
        self._clock = clock
        background = BackgroundTasks()
        self._table = StateTable(self._snapshots, clock, first_epoch=self.incarnation)
        self._recovery = Recovery(self._table, clock, restarted, self.incarnation)
        self._ownership = Ownership(self._snapshots, background, is_alive, options.probe_after_s)
        self._forgetting = Forgetting(self._table, self._ownership, background)
        self._sessions = self._ownership.sessions
        self._last_session = self.incarnation
        self._starting: asyncio.Task[None] | None = None

    @property
    def _grace_s(self) -> float:
        return self._options.lease_s + self._options.lease_margin_s

    @property
    def n_states(self) -> int:
        return len(self._table)

    def configure(self, options: InferenceOptions) -> None:
        """Take over new bounds; lease times stay, because replicas count on them."""
        self._options = options.model_copy(
            update={
                "lease_s": self._options.lease_s,
                "lease_margin_s": self._options.lease_margin_s,
            }
        )

    async def start(self) -> None:
        """Read the snapshots, once; whatever needs states waits for it."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        for key, snapshot in await self._snapshots.load():
            self._table.restore(key, snapshot)
        self._recovery.begin(self._grace_s)

    # Sessions

    async def open_session(self, replica: str, claim: Claim) -> OpenedSession:
        """Open a replica's session in place of any that it had before."""
        await self.start()
        self._recovery.hear(claim)
        earlier = [session for session in self._sessions.values() if session.replica == replica]
        session = self._new_session(replica)
        given_back = self._recovery.accept(claim, claim.given_back, earlier)
        owned = self._recovery.accept(claim, claim.owned, earlier)
        kept = [each for each in owned if self._recovery.still_owns(claim, each, earlier)]
        for record in kept:
            self._ownership.move(record, session)
        for each in earlier:
            self._ownership.end_session(each)
        accepted = given_back + owned
        if len(accepted) > len(kept):
            self._snapshots.hurry()
        return OpenedSession(
            session.number,
            self.incarnation,
            self._options.lease_s,
            kept=[record.key for record in kept],
            accepted=[record.key for record in accepted],
        )

    def _new_session(self, replica: str) -> Session:
        self._last_session += 1
        session = Session(self._last_session, replica, self._clock() + self._grace_s)
        self._sessions[session.number] = session
        return session

    async def listen(self, session: int) -> list[Key]:
        mine = self._renew(session)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(mine.recalled.wait(), self._options.listen_s)
        mine.recalled.clear()
        self._renew(session)
        return list(mine.recalls)  # with those that were sent before and not yet answered

    async def close_session(self, session: int) -> None:
        self._ownership.end_session(self._renew(session))
        await self._snapshots.flush()

    def _renew(self, number: int) -> Session:
        session = self._sessions.get(number)
        if session is None or self._clock() > session.expires_at:
            raise StaleSessionError(f"session {number} is not known")
        session.expires_at = self._clock() + self._grace_s
        return session

    # Ownership

    async def _recovered(self) -> None:
        await self.start()
        await self._recovery.over()

    async def checkout(self, session: int, key: Key) -> Grant:
        await self._recovered()
        mine = self._renew(session)
        if self._table.get(key) is None and self.n_states >= self._options.max_states_per_shard:
            raise TooManyStatesError(
                f"{self.n_states} hidden states are kept already; runs that end free theirs"
            )
        record = self._table.obtain(key)
        if record.owner is mine:
            raise StaleSessionError(f"session {session} already owns {key}")
        await self._ownership.take([record], mine)
        if record.owner is not mine:
            raise StaleSessionError(f"session {session} has ended")
        self._table.begin_epoch(record)
        self._ownership.recall_if_wanted(record)
        return Grant(record.version, record.hidden)

    async def commit(self, session: int, states: StateBatch, released: list[Key]) -> list[Key]:
        mine = self._renew(session)
        refused: list[Key] = []
        for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
            record = mine.owned.get(key)
            if record is None or record.version.epoch != version.epoch:
                refused.append(key)
            else:
                self._table.commit(record, version, hidden)
        for key in released:
            if key in mine.owned:
                self._ownership.release(mine.owned[key])
        return refused

    # The life of a run

    async def reset(self, run: str) -> int:
        await self._recovered()
        epoch = await self._forgetting.reset(run)
        await self._snapshots.flush()
        return epoch

    def sweep(self) -> None:
        """End sessions whose lease has run out, forget idle runs; to be called often."""
        now = self._clock()
        for session in [each for each in self._sessions.values() if now > each.expires_at]:
            logger.warning("The lease of replica %s has run out.", session.replica)
            self._ownership.end_session(session)
        self._forgetting.expire(idle_since=now - self._options.run_ttl_s)
