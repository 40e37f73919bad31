"""Sessions of replicas: their leases, and the membership that makes a replica's claim count."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from deployments.stateful.authority.leadership import Leadership
from deployments.stateful.authority.ownership import Ownership
from deployments.stateful.authority.recovery import Recovery
from deployments.stateful.authority.table import Session
from deployments.stateful.protocol import PROTOCOL, DismissedError, Hello, StaleSessionError

logger = logging.getLogger("ray.serve")


class Sessions:
    """Opens, renews and ends sessions.

    Args:
        grace_s: time from the last call of a session until its lease has certainly expired.
    """

    def __init__(
        self,
        leadership: Leadership,
        ownership: Ownership,
        recovery: Recovery,
        grace_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._leadership = leadership
        self._ownership = ownership
        self._recovery = recovery
        self._grace_s = grace_s
        self._clock = clock
        self._by_number = ownership.sessions
        self._last_number = 0
        self._enrolling = asyncio.Lock()

    async def open(self, hello: Hello) -> Session:
        """Open a session of a member, in place of its earlier ones.

        A member may open one while the partition is being retired, too: it may have steps to
        commit. Numbers begin with the term, so those of an earlier term are never mistaken.
        """
        async with self._enrolling:
            if hello.replica not in self._leadership.members:
                self._leadership.require_open(hello.generation)
                await self._enrol(hello.replica)
            self._leadership.require()
            first = self._leadership.term << 32
            self._last_number = max(first, self._last_number) + 1
            expires_at = self._clock() + self._grace_s
            session = Session(self._last_number, hello.replica, expires_at)
            self._ownership.begin_session(session)
        return session

    async def _enrol(self, replica: str) -> None:
        """Add a member, and remove those that have no session and no claim to make."""
        present = [session.replica for session in self._by_number.values()]
        members = dict.fromkeys((*self._recovery.missing, *present, replica))
        await self._leadership.writer.set_members(tuple(members))

    def find(self, number: int) -> Session:
        """Return a session, its lease renewed.

        Raises:
            StaleSessionError: it has ended.
        """
        self._leadership.require()
        session = self._by_number.get(number)
        if session is None or self._clock() > session.expires_at:
            raise StaleSessionError(f"Session {number} is unknown or has ended")
        session.expires_at = self._clock() + self._grace_s
        return session

    def find_claiming(self, number: int) -> Session:
        """Return a session whose claim is not settled, its lease renewed."""
        session = self.find(number)
        if not session.claiming:
            raise StaleSessionError(f"Session {number} has claimed already")
        return session

    def renew(self, number: int) -> Session:
        """Return a session whose claim is settled, its lease renewed."""
        session = self.find(number)
        if session.claiming:
            raise StaleSessionError(f"Session {number} has not claimed yet")
        return session

    def end(self, session: Session) -> None:
        if session.number in self._by_number:
            self._ownership.end_session(session)

    def end_expired(self) -> None:
        now = self._clock()
        for session in [each for each in self._by_number.values() if now > each.expires_at]:
            logger.warning("The lease of replica %s has expired", session.replica)
            self._ownership.end_session(session)


def refuse_other_protocols(hello: Hello) -> None:
    """Check that a replica speaks this version of the protocol.

    Raises:
        DismissedError: it does not.
    """
    if hello.protocol != PROTOCOL:
        raise DismissedError(
            f"The replica speaks version {hello.protocol} of the hidden-state protocol, the state "
            f"actor version {PROTOCOL}. A rollout of one version replaces both"
        )
