"""The authority over hidden states: who owns which, and what was committed last.

A replica that owns a state steps its own copy without asking; the authority grants each state to
one replica at a time (an exclusive lease as in Gray and Cheriton, "Leases", SOSP 1989) and refuses
commits of anyone else. This class is plain asyncio and runs in one event loop;
:mod:`deployments.inference.wire.actor` puts it into a Ray actor.

After a restart the authority knows nothing but snapshots. For one lease time it only lets owners,
whose leases are still valid, claim what they own; after that no earlier owner can still be
stepping. Numbers of sessions and epochs start at the time of the start, so those of an earlier life
are never taken for its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from deployments.inference.authority.background import BackgroundTasks
from deployments.inference.authority.ownership import ITSELF, Ownership, Session
from deployments.inference.authority.snapshots import NoSnapshots, Snapshots
from deployments.inference.authority.table import StateRecord, StateTable
from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import (
    Claim,
    Grant,
    Key,
    OpenedSession,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
    Version,
)

logger = logging.getLogger(__name__)


class HiddenStateAuthority:
    """Implements :class:`~deployments.inference.protocol.Authority`.

    Args:
        settings: times and bounds.
        snapshots: where copies of the states go, for a restart.
        is_alive: asked about an owner that does not answer a recall; False breaks its lease at
            once.
        restarted: an earlier life may still have owners; wait for their claims.
    """

    def __init__(
        self,
        settings: InferenceOptions,
        snapshots: Snapshots | None = None,
        is_alive: Callable[[str], Awaitable[bool]] | None = None,
        restarted: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.incarnation = time.time_ns()
        self._settings = settings
        self._snapshots = snapshots or NoSnapshots()
        self._clock = clock
        self._background = BackgroundTasks()
        self._table = StateTable(self._snapshots, clock)
        self._ownership = Ownership(
            self._table, self._snapshots, self._background, is_alive, settings.probe_after_s
        )
        self._sessions = self._ownership.sessions
        self._last_session = self.incarnation
        self._last_epoch = self.incarnation
        self._restarted = restarted
        self._recover_until = 0.0
        self._cleared: dict[str, int] = {}  # run -> epoch, resets of the earlier life
        self._starting: asyncio.Task[None] | None = None
        self._expiring: set[str] = set()

    @property
    def _grace_s(self) -> float:
        return self._settings.lease_s + self._settings.lease_margin_s

    @property
    def n_states(self) -> int:
        return len(self._table)

    def configure(self, settings: InferenceOptions) -> None:
        """Take over new bounds; lease times stay, because replicas count on them."""
        self._settings = settings.model_copy(
            update={
                "lease_s": self._settings.lease_s,
                "lease_margin_s": self._settings.lease_margin_s,
            }
        )

    async def start(self) -> None:
        """Read the snapshots, once; whatever needs states waits for it."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        for key, snapshot in await self._snapshots.load():
            record = self._table.obtain(key)
            record.version, record.hidden = snapshot
            self._last_epoch = max(self._last_epoch, snapshot.version.epoch)
        self._recover_until = self._clock() + self._grace_s

    # Sessions

    async def open_session(self, replica: str, claim: Claim) -> OpenedSession:
        """Open a replica's session in place of any that it had before."""
        await self.start()
        if claim.incarnation not in (None, self.incarnation):
            self._restarted = True  # as a fresh actor, but somebody remembers an earlier one
        if self._recovering:
            self._clear_again(claim.resets)
        earlier = [each for each, session in self._sessions.items() if session.replica == replica]
        self._last_session += 1
        session_id = self._last_session
        self._sessions[session_id] = Session(replica, self._clock() + self._grace_s)
        accepted = self._accept_all(claim, claim.given_back, earlier)
        kept: list[Key] = []
        for key in self._accept_all(claim, claim.owned, earlier):
            accepted.append(key)
            record = self._table[key]
            if self._still_owns(claim, record, earlier):
                self._ownership.move(key, record, session_id)
                kept.append(key)
        for each in earlier:
            self._ownership.end_session(each)
        if len(accepted) > len(kept):
            self._snapshots.hurry()
        return OpenedSession(session_id, self.incarnation, self._settings.lease_s, kept, accepted)

    def _clear_again(self, resets: dict[str, int]) -> None:
        """Apply resets of the earlier life to what snapshots and claims have brought back."""
        for run, epoch in resets.items():
            self._cleared[run] = max(epoch, self._cleared.get(run, 0))
            for key, record in self._table.of_run(run):
                if record.owner is None and record.version.epoch <= epoch:
                    self._table.clear(key)
                    self._table.remove(key)

    def _accept_all(self, claim: Claim, states: StateBatch, earlier: list[int]) -> list[Key]:
        """Take over the states that nobody has, or may have, stepped since; return their keys."""
        accepted: list[Key] = []
        for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
            if not self._acceptable(claim, key, version, earlier):
                continue
            self._table.obtain(key)
            self._table.commit(key, version, hidden)
            self._last_epoch = max(self._last_epoch, version.epoch)
            accepted.append(key)
        return accepted

    def _acceptable(self, claim: Claim, key: Key, version: Version, earlier: list[int]) -> bool:
        record = self._table.get(key)
        if record is None:  # unless this is a restart, it was reset or has expired
            forgotten = claim.incarnation == self.incarnation or not self._recovering
            return not forgotten and version.epoch > self._cleared.get(key.run, 0)
        if record.version > version or (record.owner is not None and record.owner not in earlier):
            return False
        return self._recovering or record.version.epoch == version.epoch

    def _still_owns(self, claim: Claim, record: StateRecord, earlier: list[int]) -> bool:
        if claim.incarnation == self.incarnation:
            return record.owner in earlier
        return claim.lease_valid and (record.owner is None or record.owner in earlier)

    async def listen(self, session: int) -> list[Key]:
        mine = self._renew(session)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(mine.recalled.wait(), self._settings.listen_s)
        mine.recalled.clear()
        self._renew(session)
        return list(mine.recalls)  # with those that were sent before and not yet answered

    async def close_session(self, session: int) -> None:
        self._renew(session)
        self._ownership.end_session(session)
        await self._snapshots.flush()

    def _renew(self, session_id: int) -> Session:
        session = self._sessions.get(session_id)
        if session is None or self._clock() > session.expires_at:
            raise StaleSessionError(f"session {session_id} is not known")
        session.expires_at = self._clock() + self._grace_s
        return session

    # Ownership

    @property
    def _recovering(self) -> bool:
        return self._restarted and self._clock() < self._recover_until

    async def _recovered(self) -> None:
        await self.start()
        while self._recovering:
            await asyncio.sleep(max(0.0, self._recover_until - self._clock()))

    async def checkout(self, session: int, key: Key) -> Grant:
        await self._recovered()
        self._renew(session)
        if self._table.get(key) is None and self.n_states >= self._settings.max_states_per_shard:
            raise TooManyStatesError(
                f"{self.n_states} hidden states are kept already; runs that end free theirs"
            )
        record = self._table.obtain(key)
        if record.owner == session:
            raise StaleSessionError(f"session {session} already owns {key}")
        await self._ownership.take([(key, record)], session)
        if record.owner != session:
            raise StaleSessionError(f"session {session} has ended")
        self._last_epoch += 1
        record.version = Version(self._last_epoch, record.version.step)
        self._ownership.recall_if_wanted(key, record)
        return Grant(record.version, record.hidden)

    async def commit(self, session: int, states: StateBatch, released: list[Key]) -> list[Key]:
        mine = self._renew(session)
        refused: list[Key] = []
        for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
            record = self._table.get(key)
            if record is None or record.owner != session or record.version.epoch != version.epoch:
                refused.append(key)
                continue
            self._table.commit(key, version, hidden)
        for key in released:
            if key in mine.owned:
                self._ownership.release(key, self._table[key])
        return refused

    # The life of a run

    async def reset(self, run: str) -> int:
        await self._recovered()
        await self._forget(run)
        epoch = self._last_epoch
        await self._snapshots.flush()
        return epoch

    async def _forget(self, run: str, unused_since: float | None = None) -> None:
        """Clear a run's states; with ``unused_since`` only if nobody used the run after that."""
        records = self._table.of_run(run)
        await self._ownership.take(records, ITSELF)
        if records and unused_since is not None and self._table.used_since(run, unused_since):
            for key, record in records:
                self._ownership.free(key, record)
            return
        for key, record in records:
            self._table.clear(key)
            self._ownership.free(key, record)
            if record.owner is None:
                self._table.remove(key)

    # Background work

    def sweep(self) -> None:
        """End sessions whose lease has run out, forget idle runs; for several times a second."""
        now = self._clock()
        for session_id in [s for s, each in self._sessions.items() if now > each.expires_at]:
            logger.warning(
                "The lease of replica %s has run out.", self._sessions[session_id].replica
            )
            self._ownership.end_session(session_id)
        idle_since = now - self._settings.run_ttl_s
        for run in self._table.idle_runs(idle_since):
            if run not in self._expiring:
                self._expiring.add(run)
                self._background.spawn(self._expire(run, idle_since))

    async def _expire(self, run: str, idle_since: float) -> None:
        try:
            await self._forget(run, unused_since=idle_since)
        finally:
            self._expiring.discard(run)
