"""Ownership of states: one owner each, a queue of those that wait, and recalls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from deployments.aio import BackgroundTasks
from deployments.stateful.authority.table import Owner, Session, StateRecord, StateTable, Waiter
from deployments.stateful.layout import Cluster
from deployments.stateful.protocol import StaleSessionError

logger = logging.getLogger("ray.serve")

PROBE_AFTER_S = 0.03  # from a recall until the cluster is asked whether the owner is alive
_LONGEST_PROBE_PAUSE_S = 0.5


class Ownership:
    """Gives each record to one owner at a time, in the order of requests.

    Args:
        cluster: knows whether an owner is alive that does not answer a recall. The lease of a
            dead one is broken at once.
        may_act: whether anything may be granted now.

    Attributes:
        sessions: by number.
    """

    def __init__(
        self,
        table: StateTable,
        background: BackgroundTasks,
        cluster: Cluster,
        may_act: Callable[[], bool],
    ) -> None:
        self.sessions: dict[int, Session] = {}
        self._table = table
        self._background = background
        self._cluster = cluster
        self._may_act = may_act

    # Sessions

    def begin_session(self, session: Session) -> None:
        """Begin a session, which inherits what earlier ones of its replica own."""
        for earlier in [s for s in self.sessions.values() if s.replica == session.replica]:
            self._forget(earlier)
            for record in earlier.owned.values():
                record.owner = session
            session.owned |= earlier.owned
        self.sessions[session.number] = session

    def settle_claim(self, session: Session, kept: Sequence[StateRecord]) -> None:
        """Begin a session's normal operation with these records; free what else it inherited."""
        session.claiming = False
        for record in kept:
            if record.owner is None:
                self._give(record, session)
        keys = {record.key for record in kept}
        for record in [r for key, r in session.owned.items() if key not in keys]:
            self.release(record)
        for record in list(session.owned.values()):
            self.recall_if_wanted(record)

    def end_session(self, session: Session) -> None:
        self._forget(session)
        for record in session.owned.values():
            self.free(record)

    def _forget(self, session: Session) -> None:
        del self.sessions[session.number]
        session.recalled.set()  # its long poll must not continue for the next session
        for wait in list(session.waits):
            if not wait.done():
                wait.set_exception(StaleSessionError(f"Session {session.number} has ended"))

    # Records

    async def take(self, records: Sequence[StateRecord], owner: Owner) -> None:
        """Return when ``owner`` has all records.

        It queues for all of them at once, and then waits. While it waits, records that it already
        has stay its own. If it is cancelled, it leaves every queue: a place that was not granted
        yet is withdrawn, and a record that was granted is released to the next in its queue.
        """
        grants = [self._queue(record, owner) for record in records]
        try:
            for granted in grants:
                await granted
        except asyncio.CancelledError:
            for record, granted in zip(records, grants, strict=True):
                withdrawn = granted.cancel() or granted.cancelled()
                if not withdrawn and record.owner is owner:
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
            record.waiters.insert(0, Waiter(owner, granted))  # a run has one eviction at a time
        self._recall(record)
        return granted

    def _give(self, record: StateRecord, owner: Owner) -> None:
        assert record.owner is None, "invariant 1: one owner"
        record.owner = owner
        if isinstance(owner, Session):
            owner.owned[record.key] = record

    def release(self, record: StateRecord) -> None:
        """Take a record off its session, and give it to the next that waits."""
        if isinstance(record.owner, Session):
            record.owner.owned.pop(record.key, None)
            record.owner.recalls.pop(record.key, None)
        self.free(record)

    def free(self, record: StateRecord) -> None:
        """Take a state from its owner and give it to the next that waits."""
        record.owner = None
        while record.waiters:
            waiter = record.waiters.pop(0)
            if not waiter.granted.done():
                self._give(record, waiter.owner)
                waiter.granted.set_result(None)
                return
        self._table.expedite_snapshot(record)

    # Recalls

    def recall_if_wanted(self, record: StateRecord) -> None:
        if record.wanted:
            self._recall(record)

    def _recall(self, record: StateRecord) -> None:
        """Ask the owner to give a state back."""
        session = record.owner
        if not isinstance(session, Session) or session.claiming:
            return  # settle_claim looks at it again
        session.recalls[record.key] = record
        session.recalled.set()
        if not session.probed:
            session.probed = True
            self._background.spawn(self._probe(session))

    async def _probe(self, session: Session) -> None:
        """Break the lease of a dead owner before it expires."""
        pause_s = PROBE_AFTER_S
        try:
            while session.number in self.sessions:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PROBE_PAUSE_S)
                if not self._is_waited_for(session):
                    return
                dead = not await self._cluster.is_alive(session.replica)
                if dead and session.number in self.sessions and self._may_act():
                    logger.warning("Replica %s is dead; broke its leases", session.replica)
                    self.end_session(session)
        finally:
            session.probed = False

    def _is_waited_for(self, session: Session) -> bool:
        return any(record.wanted for key, record in session.recalls.items() if key in session.owned)
