"""A replica's standing with the authority: the session, its lease, and the way to a new one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from deployments.inference.protocol import (
    Authority,
    Claim,
    HiddenStateError,
    OpenedSession,
    StaleSessionError,
)

logger = logging.getLogger(__name__)

RECONNECT_PAUSE_S = 0.05
CALL_TIMEOUT_S = 5.0


class AbandonedError(HiddenStateError):
    """This replica cannot keep hidden states any more; it is about to be replaced."""

    def __init__(self) -> None:
        super().__init__("a background loop of the hidden states has died")


class Claimant(Protocol):
    """Whoever holds states under the session."""

    def claim(self, incarnation: int | None, lease_valid: bool) -> Claim:
        """Return what is held; what changes until ``settle`` is not part of the claim."""

    def settle(self, opened: OpenedSession) -> None:
        """Take over what has become of the claim."""


class Session:
    """The one session that a replica has, opened anew whenever it is in doubt.

    Args:
        authority: whom to ask.
        replica: a name by which the authority can ask whether this replica lives.
        claimant: makes the claims.

    Attributes:
        number: None before the first session.
    """

    def __init__(
        self, authority: Authority, replica: str, claimant: Claimant, now: Callable[[], float]
    ) -> None:
        self.number: int | None = None
        self._authority = authority
        self._replica = replica
        self._claimant = claimant
        self._now = now
        self._incarnation: int | None = None
        self._lease_s = 0.0
        self._lease_until = 0.0
        self._ended = False  # the authority says so, lease or no lease
        self._abandoned = False
        self._opening = asyncio.Lock()

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
        """
        if isinstance(error, StaleSessionError) and self.number == broken:
            self._ended = True
        async with self._opening:
            while self.number == broken:
                if self._abandoned:
                    raise AbandonedError
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        await self._open()
                except (HiddenStateError, TimeoutError) as refusal:
                    logger.info("The authority over hidden states does not answer: %s", refusal)
                    await asyncio.sleep(RECONNECT_PAUSE_S)

    async def _open(self) -> None:
        sent_at = self._now()
        claim = self._claimant.claim(self._incarnation, lease_valid=sent_at < self._lease_until)
        opened = await self._authority.open_session(self._replica, claim)
        self.number, self._incarnation = opened.session, opened.incarnation
        self._ended = False
        self._claimant.settle(opened)
        self._lease_s = opened.lease_s
        self._lease_until = sent_at + opened.lease_s
