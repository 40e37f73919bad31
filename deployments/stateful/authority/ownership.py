"""Who owns which state: sessions of replicas, queues of those who wait, recalls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from deployments.stateful.authority.background import BackgroundTasks
from deployments.stateful.authority.cluster import Cluster
from deployments.stateful.authority.table import Owner, Session, StateRecord, StateTable, Waiter
from deployments.stateful.protocol import StaleSessionError

logger = logging.getLogger("ray.serve")

_LONGEST_PROBE_PAUSE_S = 0.5


class Ownership:
    """Gives each record to one owner at a time, in the order of asking.

    Args:
        cluster: asked about an owner that does not answer a recall for ``probe_after_s``; when it
            is dead, its lease is broken at once.
        may_act: whether anything may be given to anybody now.

    Attributes:
        sessions: by number.
    """

    def __init__(
        self,
        table: StateTable,
        background: BackgroundTasks,
        cluster: Cluster,
        probe_after_s: float,
        may_act: Callable[[], bool],
    ) -> None:
        self.sessions: dict[int, Session] = {}
        self._table = table
        self._background = background
        self._cluster = cluster
        self._probe_after_s = probe_after_s
        self._may_act = may_act

    def end_session(self, session: Session) -> None:
        self._forget(session)
        for record in session.owned.values():
            self.free(record)

    def succeed_session(self, session: Session) -> None:
        """Begin a session, which inherits what earlier ones of its replica own."""
        for earlier in [s for s in self.sessions.values() if s.replica == session.replica]:
            self._forget(earlier)
            for record in earlier.owned.values():
                record.owner = session
            session.owned |= earlier.owned
        self.sessions[session.number] = session

    def _forget(self, session: Session) -> None:
        del self.sessions[session.number]
        session.recalled.set()  # nobody may go on listening for what concerns the next one
        for wait in list(session.waits):
            if not wait.done():
                wait.set_exception(StaleSessionError(f"session {session.number} has ended"))

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
            record.waiters.append(Waiter(owner, granted))
            owner.waits[granted] = None
            granted.add_done_callback(owner.waits.pop)
        else:
            record.waiters.insert(0, Waiter(owner, granted))  # one clearing of a run at a time
        self.recall(record)
        return granted

    def settle_claim(self, session: Session, kept: Sequence[StateRecord]) -> None:
        """Begin a session's normal life with these records, and free what else it has inherited."""
        session.claiming = False
        for record in kept:
            if record.owner is None:
                self._give(record, session)
        keys = {record.key for record in kept}
        for record in [r for key, r in session.owned.items() if key not in keys]:
            self.release(record)
        for record in list(session.owned.values()):
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
            turn = record.waiters.pop(0)
            if not turn.granted.done():
                self._give(record, turn.owner)
                turn.granted.set_result(None)
                return
        self._table.left(record)

    def recall_if_wanted(self, record: StateRecord) -> None:
        if record.wanted:
            self.recall(record)

    def recall(self, record: StateRecord) -> None:
        """Ask the owner to give a state back."""
        session = record.owner
        if not isinstance(session, Session) or session.claiming:
            return  # after the claim it is looked at again
        session.recalls[record.key] = record
        session.recalled.set()
        if not session.probed:
            session.probed = True
            self._background.spawn(self._probe(session))

    async def _probe(self, session: Session) -> None:
        """Break the lease of a dead owner without waiting until it runs out."""
        pause_s = self._probe_after_s
        try:
            while session.number in self.sessions:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PROBE_PAUSE_S)
                if not self._waited_for(session):
                    return
                dead = not await self._cluster.is_alive(session.replica)
                if dead and session.number in self.sessions and self._may_act():
                    logger.warning("Replica %s is dead; its leases are broken.", session.replica)
                    self.end_session(session)
        finally:
            session.probed = False

    def _waited_for(self, session: Session) -> bool:
        return any(record.wanted for key, record in session.recalls.items() if key in session.owned)
