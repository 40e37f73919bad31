"""Who owns which state: sessions of replicas, queues of those who wait, recalls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from deployments.inference.authority.background import BackgroundTasks
from deployments.inference.authority.snapshots import Snapshots
from deployments.inference.authority.table import Owner, Session, StateRecord, Turn
from deployments.inference.protocol import StaleSessionError

logger = logging.getLogger(__name__)

IsAlive = Callable[[str], Awaitable[bool]]


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
        snapshots: Snapshots,
        background: BackgroundTasks,
        is_alive: IsAlive | None,
        probe_after_s: float,
    ) -> None:
        self.sessions: dict[int, Session] = {}
        self._snapshots = snapshots
        self._background = background
        self._is_alive = is_alive
        self._probe_after_s = probe_after_s

    def end_session(self, session: Session) -> None:
        del self.sessions[session.number]
        for wait in list(session.waits):
            if not wait.done():
                wait.set_exception(StaleSessionError(f"session {session.number} has ended"))
        for record in session.owned.values():
            self.free(record)

    async def take(self, wanted: Sequence[StateRecord], owner: Owner) -> None:
        """Return when ``owner`` has all records; a cancelled wait leaves none behind."""
        turns = [self._queue(record, owner) for record in wanted]
        try:
            for turn in turns:
                await turn
        except asyncio.CancelledError:
            for record, turn in zip(wanted, turns, strict=True):
                if not turn.cancel() and not turn.cancelled() and record.owner is owner:
                    self.release(record)
            raise

    def _queue(self, record: StateRecord, owner: Owner) -> asyncio.Future[None]:
        """Queue for a record, the authority before replicas; done when ``owner`` has it."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if record.owner is None:
            self._give(record, owner)
            granted.set_result(None)
            return granted
        if isinstance(owner, Session):
            record.waiters.append(Turn(owner, granted))
            owner.waits[granted] = None
            granted.add_done_callback(owner.waits.pop)
        else:
            record.waiters.appendleft(Turn(owner, granted))  # one clearing of a run at a time
        self.recall(record)
        return granted

    def move(self, record: StateRecord, session: Session) -> None:
        """Give a record to a replica's new session in place of an earlier one, past the queue."""
        if isinstance(record.owner, Session):
            del record.owner.owned[record.key]
            record.owner = None
        self._give(record, session)
        self.recall_if_wanted(record)

    def _give(self, record: StateRecord, owner: Owner) -> None:
        assert record.owner is None, "invariant 1: one owner"
        record.owner = owner
        if isinstance(owner, Session):
            owner.owned[record.key] = record

    def release(self, record: StateRecord) -> None:
        if isinstance(record.owner, Session):
            record.owner.owned.pop(record.key, None)
            record.owner.recalls.pop(record.key, None)
        self.free(record)

    def free(self, record: StateRecord) -> None:
        """Take a state from its owner and give it to the next who waits."""
        record.owner = None
        while record.waiters:
            turn = record.waiters.popleft()
            if not turn.granted.done():
                self._give(record, turn.owner)
                turn.granted.set_result(None)
                return
        self._snapshots.hurry()

    def recall_if_wanted(self, record: StateRecord) -> None:
        if record.wanted:
            self.recall(record)

    def recall(self, record: StateRecord) -> None:
        """Ask the owner to give a state back."""
        session = record.owner
        if not isinstance(session, Session):
            return
        session.recalls[record.key] = record
        session.recalled.set()
        if self._is_alive and not session.probed:
            session.probed = True
            self._background.spawn(self._probe(session, self._is_alive))

    async def _probe(self, session: Session, is_alive: IsAlive) -> None:
        """Break the lease of a dead owner without waiting until it runs out."""
        await asyncio.sleep(self._probe_after_s)
        try:
            waited_for = any(
                record.wanted for key, record in session.recalls.items() if key in session.owned
            )
            dead = waited_for and not await is_alive(session.replica)
            if dead and session.number in self.sessions:
                logger.warning("Replica %s is dead; its leases are broken.", session.replica)
                self.end_session(session)
        finally:
            session.probed = False
