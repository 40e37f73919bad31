"""The authority over hidden states: who owns which, and what was committed last.

A replica that owns a state steps its own copy without asking; the authority grants each state to
one replica at a time (an exclusive lease as in Gray and Cheriton, "Leases", SOSP 1989) and refuses
commits of anyone else. This class is plain asyncio and runs in one event loop;
:mod:`.hidden_states` puts it into a Ray actor.

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
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from deployments.inference.snapshots import NoSnapshots, Snapshot, Snapshots
from deployments.inference.states import (
    Claim,
    Floats,
    Grant,
    Key,
    LeaseSettings,
    OpenedSession,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
    Version,
)

logger = logging.getLogger(__name__)

ITSELF = 0  # owner number of the authority while it clears a state
NEVER = Version(0, 0)


@dataclass(slots=True)
class _Record:
    version: Version = NEVER
    hidden: Floats | None = None
    owner: int | None = None
    waiters: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)

    @property
    def wanted(self) -> bool:
        return any(not future.done() for _, future in self.waiters)


@dataclass(slots=True)
class _Session:
    replica: str
    expires_at: float
    owned: set[Key] = field(default_factory=set)
    waits: set[asyncio.Future[None]] = field(default_factory=set)
    recalls: set[Key] = field(default_factory=set)
    recalled: asyncio.Event = field(default_factory=asyncio.Event)
    probed: bool = False


@dataclass(slots=True)
class _Run:
    used_at: float
    keys: set[Key] = field(default_factory=set)


class HiddenStateAuthority:
    """Implements :class:`.states.Authority`.

    Args:
        settings: times and bounds.
        snapshots: where copies of the states go, for a restart.
        is_alive: asked about an owner that does not answer a recall; False breaks its lease at
            once.
        restarted: an earlier life may still have owners; wait for their claims.
    """

    def __init__(
        self,
        settings: LeaseSettings,
        snapshots: Snapshots | None = None,
        is_alive: Callable[[str], Awaitable[bool]] | None = None,
        restarted: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.incarnation = time.time_ns()
        self._settings = settings
        self._snapshots = snapshots or NoSnapshots()
        self._is_alive = is_alive
        self._clock = clock
        self._records: dict[Key, _Record] = {}
        self._runs: OrderedDict[str, _Run] = OrderedDict()  # the longest unused first
        self._sessions: dict[int, _Session] = {}
        self._last_session = self.incarnation
        self._last_epoch = self.incarnation
        self._restarted = restarted
        self._recover_until = 0.0
        self._cleared: dict[str, int] = {}  # run -> epoch, resets of the earlier life
        self._starting: asyncio.Task[None] | None = None
        self._expiring: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()

    @property
    def _grace_s(self) -> float:
        return self._settings.lease_s + self._settings.lease_margin_s

    @property
    def n_states(self) -> int:
        return len(self._records)

    def configure(self, settings: LeaseSettings) -> None:
        """Take over new bounds; lease times stay, because replicas count on them."""
        self._settings = replace(
            settings,
            lease_s=self._settings.lease_s,
            lease_margin_s=self._settings.lease_margin_s,
        )

    async def start(self) -> None:
        """Read the snapshots, once; whatever needs states waits for it."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        for key, snapshot in await self._snapshots.load():
            record = self._add(key)
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
        self._sessions[session_id] = _Session(replica, self._clock() + self._grace_s)
        accepted = self._accept_all(claim, claim.given_back, earlier)
        kept: list[Key] = []
        for key in self._accept_all(claim, claim.owned, earlier):
            accepted.append(key)
            record = self._records[key]
            if self._still_owns(claim, record, earlier):
                if record.owner is not None:
                    self._sessions[record.owner].owned.discard(key)
                self._give(key, record, session_id)
                kept.append(key)
                if record.wanted:
                    self._recall(key, record)
        for each in earlier:
            self._end_session(each)
        if len(accepted) > len(kept):
            self._snapshots.hurry()
        return OpenedSession(session_id, self.incarnation, self._settings.lease_s, kept, accepted)

    def _clear_again(self, resets: dict[str, int]) -> None:
        """Apply resets of the earlier life to what snapshots and claims have brought back."""
        for run, epoch in resets.items():
            self._cleared[run] = max(epoch, self._cleared.get(run, 0))
            for key in list(self._runs[run].keys) if run in self._runs else ():
                record = self._records[key]
                if record.owner is None and record.version.epoch <= epoch:
                    self._snapshots.erase(key)
                    self._remove(key)

    def _accept_all(self, claim: Claim, states: StateBatch, earlier: list[int]) -> list[Key]:
        """Take over the states that nobody has, or may have, stepped since; return their keys."""
        accepted: list[Key] = []
        for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
            if not self._acceptable(claim, key, version, earlier):
                continue
            record = self._records.get(key) or self._add(key)
            record.version, record.hidden = version, hidden.copy()
            self._last_epoch = max(self._last_epoch, version.epoch)
            self._touch(key)
            accepted.append(key)
        return accepted

    def _acceptable(self, claim: Claim, key: Key, version: Version, earlier: list[int]) -> bool:
        record = self._records.get(key)
        if record is None:  # unless this is a restart, it was reset or has expired
            forgotten = claim.incarnation == self.incarnation or not self._recovering
            return not forgotten and version.epoch > self._cleared.get(key.run, 0)
        if record.version > version or (record.owner is not None and record.owner not in earlier):
            return False
        return self._recovering or record.version.epoch == version.epoch

    def _still_owns(self, claim: Claim, record: _Record, earlier: list[int]) -> bool:
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
        self._end_session(session)
        await self._snapshots.flush()

    def _renew(self, session_id: int) -> _Session:
        session = self._sessions.get(session_id)
        if session is None or self._clock() > session.expires_at:
            raise StaleSessionError(f"session {session_id} is not known")
        session.expires_at = self._clock() + self._grace_s
        return session

    def _end_session(self, session_id: int) -> None:
        session = self._sessions.pop(session_id)
        for future in list(session.waits):
            if not future.done():
                future.set_exception(StaleSessionError(f"session {session_id} has ended"))
        for key in session.owned:
            self._free(key, self._records[key])

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
        if key not in self._records and len(self._records) >= self._settings.max_states:
            raise TooManyStatesError(
                f"{len(self._records)} hidden states are kept already; runs that end free theirs"
            )
        record = self._records.get(key) or self._add(key)
        if record.owner == session:
            raise StaleSessionError(f"session {session} already owns {key}")
        await self._taken([(key, record)], session)
        if record.owner != session:
            raise StaleSessionError(f"session {session} has ended")
        self._last_epoch += 1
        record.version = Version(self._last_epoch, record.version.step)
        if record.wanted:
            self._recall(key, record)
        return Grant(record.version, record.hidden)

    async def _taken(self, wanted: list[tuple[Key, _Record]], owner: int) -> None:
        """Return when ``owner`` has all records; a cancelled wait leaves none behind."""
        turns = [self._queue(key, record, owner) for key, record in wanted]
        try:
            for turn in turns:
                await turn
        except asyncio.CancelledError:
            for (key, record), turn in zip(wanted, turns, strict=True):
                if not turn.cancel() and not turn.cancelled() and record.owner == owner:
                    self._release(key, record)
            raise

    def _queue(self, key: Key, record: _Record, owner: int) -> asyncio.Future[None]:
        """Queue for a record; done when ``owner`` has it. The authority goes before replicas."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if record.owner is None:
            self._give(key, record, owner)
            turn.set_result(None)
            return turn
        # Among its own, the authority keeps their order: two resets that each waited for a record
        # of the other's would wait for ever.
        place = sum(waiter == ITSELF for waiter, _ in record.waiters)
        record.waiters.insert(place if owner == ITSELF else len(record.waiters), (owner, turn))
        if owner != ITSELF:
            waits = self._sessions[owner].waits
            waits.add(turn)
            turn.add_done_callback(waits.discard)
        self._recall(key, record)
        return turn

    def _give(self, key: Key, record: _Record, owner: int) -> None:
        record.owner = owner
        if owner != ITSELF:
            self._sessions[owner].owned.add(key)

    def _release(self, key: Key, record: _Record) -> None:
        if record.owner in self._sessions:
            self._sessions[record.owner].owned.discard(key)
            self._sessions[record.owner].recalls.discard(key)
        self._free(key, record)

    def _free(self, key: Key, record: _Record) -> None:
        """The state has no owner any more; it is the next waiter's."""
        record.owner = None
        while record.waiters:
            owner, turn = record.waiters.popleft()
            if not turn.done():
                self._give(key, record, owner)
                turn.set_result(None)
                return
        self._snapshots.hurry()

    def _recall(self, key: Key, record: _Record) -> None:
        session = self._sessions.get(record.owner or ITSELF)
        if session is None:
            return
        session.recalls.add(key)
        session.recalled.set()
        if self._is_alive and not session.probed:
            session.probed = True
            self._spawn(self._probe(record.owner or ITSELF, session))

    async def _probe(self, session_id: int, session: _Session) -> None:
        """Break the lease of a dead owner without waiting until it runs out."""
        assert self._is_alive is not None
        await asyncio.sleep(self._settings.probe_after_s)
        try:
            waited_for = any(self._records[key].wanted for key in session.recalls & session.owned)
            dead = waited_for and not await self._is_alive(session.replica)
            if dead and session_id in self._sessions:
                logger.warning("Replica %s is dead; its leases are broken.", session.replica)
                self._end_session(session_id)
        finally:
            session.probed = False

    async def commit(self, session: int, states: StateBatch, released: list[Key]) -> list[Key]:
        mine = self._renew(session)
        refused: list[Key] = []
        for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
            record = self._records.get(key)
            if record is None or record.owner != session or record.version.epoch != version.epoch:
                refused.append(key)
                continue
            record.version, record.hidden = version, hidden.copy()
            self._touch(key)
        for key in released:
            if key in mine.owned:
                self._release(key, self._records[key])
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
        if run not in self._runs:
            return
        records = [(key, self._records[key]) for key in self._runs[run].keys]
        await self._taken(records, ITSELF)
        still_used = unused_since is not None and self._runs[run].used_at > unused_since
        for key, record in records:
            if not still_used:
                record.version, record.hidden = Version(record.version.epoch, 0), None
                self._snapshots.erase(key)
            self._free(key, record)
            if record.owner is None and not still_used:
                self._remove(key)

    def _add(self, key: Key) -> _Record:
        record = self._records[key] = _Record()
        run = self._runs.setdefault(key.run, _Run(self._clock()))
        run.keys.add(key)
        return record

    def _remove(self, key: Key) -> None:
        del self._records[key]
        keys = self._runs[key.run].keys
        keys.discard(key)
        if not keys:
            del self._runs[key.run]

    def _touch(self, key: Key) -> None:
        self._runs[key.run].used_at = self._clock()
        self._runs.move_to_end(key.run)
        record = self._records[key]
        if record.hidden is not None:
            self._snapshots.put(key, Snapshot(record.version, record.hidden))

    # Background work

    def sweep(self) -> None:
        """End sessions whose lease has run out, forget idle runs; for several times a second."""
        now = self._clock()
        for session_id in [s for s, each in self._sessions.items() if now > each.expires_at]:
            logger.warning(
                "The lease of replica %s has run out.", self._sessions[session_id].replica
            )
            self._end_session(session_id)
        idle_since = now - self._settings.run_ttl_s
        for run, use in self._runs.items():
            if use.used_at >= idle_since:
                break
            if run not in self._expiring:
                self._expiring.add(run)
                self._spawn(self._expire(run, idle_since))

    async def _expire(self, run: str, idle_since: float) -> None:
        try:
            await self._forget(run, unused_since=idle_since)
        finally:
            self._expiring.discard(run)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception():
            logger.error("Background work failed", exc_info=task.exception())
