"""Who owns which state: sessions of replicas, queues of those who wait, recalls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from deployments.inference.authority.background import BackgroundTasks
from deployments.inference.authority.snapshots import Snapshots
from deployments.inference.authority.table import StateRecord, StateTable
from deployments.inference.protocol import Key, StaleSessionError

logger = logging.getLogger(__name__)

ITSELF = 0  # owner number of the authority while it clears a state

Wanted = list[tuple[Key, StateRecord]]


@dataclass(slots=True)
class Session:
    """One replica's, until its lease runs out. ``recalls`` are asked back and not yet given."""

    replica: str
    expires_at: float
    owned: set[Key] = field(default_factory=set)
    waits: set[asyncio.Future[None]] = field(default_factory=set)
    recalls: set[Key] = field(default_factory=set)
    recalled: asyncio.Event = field(default_factory=asyncio.Event)
    probed: bool = False


class Ownership:
    """Gives each record to one owner at a time, in the order of asking.

    Args:
        is_alive: asked about an owner that does not answer a recall for ``probe_after_s``; False
            breaks its lease at once.

    Attributes:
        sessions: by number.
    """

    def __init__(
        self,
        table: StateTable,
        snapshots: Snapshots,
        background: BackgroundTasks,
        is_alive: Callable[[str], Awaitable[bool]] | None,
        probe_after_s: float,
    ) -> None:
        self.sessions: dict[int, Session] = {}
        self._table = table
        self._snapshots = snapshots
        self._background = background
        self._is_alive = is_alive
        self._probe_after_s = probe_after_s

    def end_session(self, number: int) -> None:
        session = self.sessions.pop(number)
        for future in list(session.waits):
            if not future.done():
                future.set_exception(StaleSessionError(f"session {number} has ended"))
        for key in session.owned:
            self.free(key, self._table[key])

    async def take(self, wanted: Wanted, owner: int) -> None:
        """Return when ``owner`` has all records; a cancelled wait leaves none behind."""
        turns = [self._queue(key, record, owner) for key, record in wanted]
        try:
            for turn in turns:
                await turn
        except asyncio.CancelledError:
            for (key, record), turn in zip(wanted, turns, strict=True):
                if not turn.cancel() and not turn.cancelled() and record.owner == owner:
                    self.release(key, record)
            raise

    def _queue(self, key: Key, record: StateRecord, owner: int) -> asyncio.Future[None]:
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
            waits = self.sessions[owner].waits
            waits.add(turn)
            turn.add_done_callback(waits.discard)
        self.recall(key, record)
        return turn

    def move(self, key: Key, record: StateRecord, owner: int) -> None:
        """Give a record to a session in place of whoever had it, past the queue."""
        if record.owner is not None:
            self.sessions[record.owner].owned.discard(key)
        self._give(key, record, owner)
        self.recall_if_wanted(key, record)

    def _give(self, key: Key, record: StateRecord, owner: int) -> None:
        record.owner = owner
        if owner != ITSELF:
            self.sessions[owner].owned.add(key)

    def release(self, key: Key, record: StateRecord) -> None:
        if record.owner in self.sessions:
            self.sessions[record.owner].owned.discard(key)
            self.sessions[record.owner].recalls.discard(key)
        self.free(key, record)

    def free(self, key: Key, record: StateRecord) -> None:
        """The state has no owner any more; it is the next waiter's."""
        record.owner = None
        while record.waiters:
            owner, turn = record.waiters.popleft()
            if not turn.done():
                self._give(key, record, owner)
                turn.set_result(None)
                return
        self._snapshots.hurry()

    def recall_if_wanted(self, key: Key, record: StateRecord) -> None:
        if record.wanted:
            self.recall(key, record)

    def recall(self, key: Key, record: StateRecord) -> None:
        """Ask the owner to give a state back."""
        number = record.owner or ITSELF
        session = self.sessions.get(number)
        if session is None:
            return
        session.recalls.add(key)
        session.recalled.set()
        if self._is_alive and not session.probed:
            session.probed = True
            self._background.spawn(self._probe(number, session, self._is_alive))

    async def _probe(
        self, number: int, session: Session, is_alive: Callable[[str], Awaitable[bool]]
    ) -> None:
        """Break the lease of a dead owner without waiting until it runs out."""
        await asyncio.sleep(self._probe_after_s)
        try:
            waited_for = any(self._table[key].wanted for key in session.recalls & session.owned)
            dead = waited_for and not await is_alive(session.replica)
            if dead and number in self.sessions:
                logger.warning("Replica %s is dead; its leases are broken.", session.replica)
                self.end_session(number)
        finally:
            session.probed = False
