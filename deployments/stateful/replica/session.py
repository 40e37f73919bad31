"""A replica's session with the authority: its lease, and its replacement when it is in doubt."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from itertools import count

from deployments.log import Outages
from deployments.stateful.protocol import (
    Authority,
    Claimed,
    ClaimPart,
    DismissedError,
    Hello,
    OpenedSession,
    SessionAbandonedError,
    StaleSessionError,
    StateError,
)
from deployments.stateful.replica.claims import Claims, Part

RECONNECT_PAUSE_S = 0.05
CALL_TIMEOUT_S = 5.0
ATTEMPTS_PER_LEASE = 3

Attempts = set[asyncio.Task[Claimed]]


class Session:
    """The one session of a replica, replaced whenever it is in doubt.

    Args:
        replica: the name by which the cluster knows whether this replica is alive.
        generation: of the replica's layout.
        claims: names what the replica holds.
        open_timeout_s: after that, opening is tried again, perhaps with another process: one that
            hangs must not keep this replica from the next term.
        forget_after_s: states that could not be used for so long are claimed as expired.

    Attributes:
        number: None before the first session.
        calls: numbers for calls.
        clock: of the lease, in seconds.
    """

    def __init__(
        self,
        authority: Authority,
        replica: str,
        generation: int,
        claims: Claims,
        clock: Callable[[], float],
        open_timeout_s: float = CALL_TIMEOUT_S,
        forget_after_s: float = math.inf,
    ) -> None:
        self.number: int | None = None
        self.calls = count(1)
        self.clock = clock
        self._authority = authority
        self._hello = Hello(replica, generation)
        self._claims = claims
        self._open_timeout_s = open_timeout_s
        self._forget_after_s = forget_after_s
        self._lease_s = 0.0
        self._lease_until = 0.0
        self._ended = False  # by the authority, whether or not the lease has expired
        self._abandoned = False
        self._opening = asyncio.Lock()
        self._outages = Outages("The state actor", clock=clock)

    @property
    def valid(self) -> bool:
        """Whether owned states may be stepped."""
        return self.clock() < self._lease_until and not self._ended and not self._abandoned

    def abandon(self) -> None:
        """Step nothing more: no background loop would keep the session."""
        self._abandoned = True

    @property
    def opening(self) -> bool:
        return self._opening.locked()

    def renew(self, number: int, sent_at: float) -> None:
        """Extend the lease: the authority has answered a call of this session.

        Args:
            sent_at: when the call was sent, before the authority's own count began (invariant 4).
        """
        if number == self.number:
            self._lease_until = max(self._lease_until, sent_at + self._lease_s)

    async def replace(self, broken: int | None, error: Exception | None = None) -> None:
        """Open a session in place of ``broken``, retrying until the authority answers.

        Args:
            broken: number of the session in doubt. If it was replaced already, nothing is done.
            error: the cause of the doubt.

        Raises:
            SessionAbandonedError: the session was abandoned.
            DismissedError: the authority will never serve this replica.
        """
        if isinstance(error, StaleSessionError) and self.number == broken:
            self._ended = True
        async with self._opening:
            while self.number == broken:
                if self._abandoned:
                    raise SessionAbandonedError
                try:
                    await self._open()
                except DismissedError:
                    self._abandoned = True
                    raise
                except (StateError, TimeoutError) as refusal:
                    self._outages.failed(refusal)
                    await asyncio.sleep(RECONNECT_PAUSE_S)

    async def _open(self) -> None:
        sent_at = self.clock()
        async with asyncio.timeout(self._open_timeout_s):
            opened = await self._authority.open_session(self._hello)
        expired = sent_at - self._lease_until > self._forget_after_s
        await self._claim(opened, self._claims.outlines(expired))
        sent_at = await self._claim(opened, self._claims.details())
        self.number = opened.session
        self._ended = False
        self._claims.settle()
        self._outages.served()
        self._lease_s = opened.lease_s
        self._lease_until = sent_at + opened.lease_s

    async def _claim(self, opened: OpenedSession, parts: Iterator[Part]) -> float:
        """Send parts one after the other, packing the next one while a response is in flight.

        Steps and recalls may happen during every await. The states in a part are copied when the
        part is made; what is stepped later follows in commits.

        Returns:
            When the last part was sent.
        """
        sent_at = self.clock()
        part = next(parts, None)
        while part is not None:
            sent_at = self.clock()
            sending = asyncio.create_task(self._send(opened, part.message))
            for _ in range(2):  # let the task start, and its first attempt leave
                await asyncio.sleep(0)
            following = next(parts, None)
            self._claims.settle_part(part, await sending)
            part = following
        return sent_at

    async def _send(self, opened: OpenedSession, message: ClaimPart) -> Claimed:
        """Send a part, and again each third of a lease until a response arrives.

        If a new term did not receive a claim, the lease would expire before the replica noticed.
        Receiving a claim twice is harmless, and a claim that arrives after it was settled is
        refused. So the first attempt that succeeds decides; a failure counts only when no other
        attempt has completed by then.
        """
        attempts: Attempts = set()
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                for _ in range(ATTEMPTS_PER_LEASE):
                    attempts.add(self._attempt(opened.session, message))
                    completed = await _first(attempts, opened.lease_s / ATTEMPTS_PER_LEASE)
                    if completed:
                        break
                else:
                    completed = await _first(attempts)
                return min(completed, key=_has_failed).result()
        finally:
            for attempt in attempts:
                attempt.cancel()

    def _attempt(self, session: int, message: ClaimPart) -> asyncio.Task[Claimed]:
        attempt = asyncio.create_task(self._authority.claim(session, message))
        attempt.add_done_callback(_has_failed)  # retrieves the exception, or asyncio would log it
        return attempt


async def _first(attempts: Attempts, timeout_s: float | None = None) -> Attempts:
    """Return the attempts that have completed, at the latest after the timeout."""
    completed, _ = await asyncio.wait(
        attempts, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
    )
    return completed


def _has_failed(attempt: asyncio.Task[Claimed]) -> bool:
    return attempt.cancelled() or attempt.exception() is not None
