"""A replica's standing with the authority: the session, its lease, and the way to a new one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Protocol

from deployments.log import Outages
from deployments.stateful.protocol import (
    Authority,
    Claimed,
    ClaimPart,
    DismissedError,
    Hello,
    HiddenStateError,
    OpenedSession,
    StaleSessionError,
)

RECONNECT_PAUSE_S = 0.05
CALL_TIMEOUT_S = 5.0
CLAIMS_IN_A_LEASE = 3

Attempts = set[asyncio.Task[Claimed]]


class AbandonedError(HiddenStateError):
    """This replica cannot keep hidden states any more; it is about to be replaced."""

    def __init__(self) -> None:
        super().__init__("this replica cannot keep hidden states any more")


class Part(Protocol):
    """A part of a claim, on its way."""

    message: ClaimPart


class Claimant(Protocol):
    """Whoever holds states under the session."""

    def outlines(self, expired: bool) -> Iterator[Part]:
        """Name what is held, nothing once it has expired; what changes until ``settle`` is not
        part of the claim."""

    def details(self) -> Iterator[Part]:
        """Yield what has to be told in full."""

    def settle_part(self, part: Any, answer: Claimed) -> None:
        """Take over what has become of a part."""

    def settle(self) -> None:
        """Go over to the new session."""


class Session:
    """The one session that a replica has, opened anew whenever it is in doubt.

    Args:
        authority: whom to ask.
        replica: a name by which the authority can ask whether this replica lives.
        generation: of the layout that this replica goes by.
        claimant: makes the claims.
        open_timeout_s: after that it is tried again, maybe with another process: one that hangs
            must not keep this replica from the next life of the authority.
        forget_after_s: what nobody could use for so long has expired, and is not claimed.

    Attributes:
        number: None before the first session.
        calls: numbers for calls.
    """

    def __init__(
        self,
        authority: Authority,
        replica: str,
        generation: int,
        claimant: Claimant,
        now: Callable[[], float],
        open_timeout_s: float = CALL_TIMEOUT_S,
        forget_after_s: float = math.inf,
    ) -> None:
        self.number: int | None = None
        self.calls = count(1)
        self._authority = authority
        self._replica = replica
        self._generation = generation
        self._claimant = claimant
        self._now = now
        self._open_timeout_s = open_timeout_s
        self._forget_after_s = forget_after_s
        self._lease_s = 0.0
        self._lease_until = 0.0
        self._ended = False  # the authority says so, lease or no lease
        self._abandoned = False
        self._opening = asyncio.Lock()
        self._outages = Outages("The state actor", clock=now)

    @property
    def valid(self) -> bool:
        """Whether owned states may be stepped."""
        return self._now() < self._lease_until and not self._ended and not self._abandoned

    def abandon(self) -> None:
        """Step nothing more: nobody is left who would keep the session."""
        self._abandoned = True

    @property
    def opening(self) -> bool:
        return self._opening.locked()

    def renew(self, number: int, sent_at: float) -> None:
        """Prolong the lease: the authority has answered a call of this session.

        Args:
            sent_at: when the call went out, which is before the authority's own count begins
                (invariant 4).
        """
        if number == self.number:
            self._lease_until = max(self._lease_until, sent_at + self._lease_s)

    async def replace(self, broken: int | None, error: Exception | None = None) -> None:
        """Open a session in place of ``broken``, trying until the authority answers.

        Args:
            broken: number of the session in doubt; nothing is done when it has been replaced.
            error: what the doubt came from.

        Raises:
            AbandonedError: the session was given up for good.
            DismissedError: the authority will never have one with this replica.
        """
        if isinstance(error, StaleSessionError) and self.number == broken:
            self._ended = True
        async with self._opening:
            while self.number == broken:
                if self._abandoned:
                    raise AbandonedError
                try:
                    await self._open()
                except DismissedError:
                    self._abandoned = True
                    raise
                except (HiddenStateError, TimeoutError) as refusal:
                    self._outages.failed(refusal)
                    await asyncio.sleep(RECONNECT_PAUSE_S)

    async def _open(self) -> None:
        sent_at = self._now()
        hello = Hello(self._replica, self._generation)
        async with asyncio.timeout(self._open_timeout_s):
            opened = await self._authority.open_session(hello)
        expired = sent_at - self._lease_until > self._forget_after_s
        await self._claim(opened, self._claimant.outlines(expired))
        sent_at = await self._claim(opened, self._claimant.details())
        self.number = opened.session
        self._ended = False
        self._claimant.settle()
        self._outages.served()
        self._lease_s = opened.lease_s
        self._lease_until = sent_at + opened.lease_s

    async def _claim(self, opened: OpenedSession, parts: Iterator[Part]) -> float:
        """Send parts, each while the next one is made; return when the last was sent."""
        sent_at = self._now()
        part = next(parts, None)
        while part is not None:
            sent_at = self._now()
            answering = asyncio.create_task(self._send(opened, part.message))
            for _ in range(2):  # the task begins an attempt, and the attempt goes out
                await asyncio.sleep(0)
            following = next(parts, None)
            self._claimant.settle_part(part, await answering)
            part = following
        return sent_at

    async def _send(self, opened: OpenedSession, message: ClaimPart) -> Claimed:
        """Send a part, and again while no answer comes.

        Were a claim to be lost on its way to a new life, the lease would run out before anybody
        noticed. One that comes twice is as good as once; when it is settled, it is refused.
        """
        attempts: Attempts = set()
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                for _ in range(CLAIMS_IN_A_LEASE):
                    attempts.add(self._attempt(opened.session, message))
                    answered, _ = await _first(attempts, opened.lease_s / CLAIMS_IN_A_LEASE)
                    if answered:
                        break
                else:
                    answered, _ = await _first(attempts)
                return min(answered, key=_has_failed).result()
        finally:
            for attempt in attempts:
                attempt.cancel()

    def _attempt(self, session: int, message: ClaimPart) -> asyncio.Task[Claimed]:
        attempt = asyncio.create_task(self._authority.claim(session, message))
        attempt.add_done_callback(_has_failed)  # or a failure behind an answer would be reported
        return attempt


async def _first(attempts: Attempts, timeout_s: float | None = None) -> tuple[Attempts, Attempts]:
    return await asyncio.wait(attempts, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def _has_failed(attempt: asyncio.Task[Claimed]) -> bool:
    return attempt.cancelled() or attempt.exception() is not None
