"""What a new life of the authority takes back from the replicas, whose memories outlive its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from deployments.stateful.authority.cluster import Cluster
from deployments.stateful.authority.fenced_writer import SupersededError
from deployments.stateful.authority.ownership import Ownership
from deployments.stateful.authority.resets import Resets
from deployments.stateful.authority.rows import Copy
from deployments.stateful.authority.table import Session, StateTable
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    ClaimPart,
    Key,
    StateBatch,
    Version,
)

logger = logging.getLogger("ray.serve")

_PAUSE_S = 0.1


class Recovery:
    """Takes claims, and settles them when enough were heard (invariant 8)."""

    def __init__(
        self,
        table: StateTable,
        ownership: Ownership,
        resets: Resets,
        cluster: Cluster,
        clock: Callable[[], float],
    ) -> None:
        self._table = table
        self._ownership = ownership
        self._resets = resets
        self._cluster = cluster
        self._clock = clock
        self._missing: dict[str, None] = {}
        self._heard = self._dead = 0
        self._until = 0.0
        self._waits = False
        self._heard_all = asyncio.Event()
        self._unsettled = 0

    def begin(self, members: Iterable[str], leases_end_at: float) -> None:
        """Begin to wait for the members of the earlier life, whose leases end by that moment."""
        self._missing = dict.fromkeys(members)
        self._heard = self._dead = 0
        self._until = leases_end_at
        self._waits = True

    def __str__(self) -> str:
        late = len(self._missing)
        return f"heard {self._heard} replicas, {self._dead} were dead, {late} out of time"

    @property
    def missing(self) -> tuple[str, ...]:
        """Members that may hold states which nobody has heard of."""
        return tuple(self._missing) if self._active else ()

    @property
    def _active(self) -> bool:
        return bool(self._missing) and (self._waits or self._any_claims)

    @property
    def _any_claims(self) -> bool:
        return any(
            session.claiming and session.replica in self._missing
            for session in self._ownership.sessions.values()
        )

    async def over(self) -> None:
        """Return when states may be granted: enough were heard, and their claims are settled."""
        while self._active or self._unsettled:
            await self._wait()

    @asynccontextmanager
    async def heard(self, replica: str, renew: Callable[[], Session]) -> AsyncIterator[Session]:
        """Wait, with a claim that is complete, for those of all others.

        Until then another replica may claim what it was granted later. No state is granted until
        this context is left.

        Args:
            renew: the lease of the session, which does not run out by this wait.
        """
        self._heard += replica in self._missing
        self._hear(replica)
        self._unsettled += 1
        try:
            while self._active:
                await self._wait()
                renew()
            yield renew()
        finally:
            self._unsettled -= 1

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await self._heard_all.wait()
        await asyncio.sleep(0)  # for claims that are settled in this turn

    async def probe(self) -> None:
        """Wait no longer for members that have died, or whose leases are over.

        Raises:
            SupersededError: members are missing, and the cluster has started a later life.
        """
        while self._active:
            for member in list(self._missing):
                if not await self._cluster.is_alive(member):
                    logger.warning("Replica %s is dead; its claim is not waited for.", member)
                    self._dead += member in self._missing
                    self._hear(member)
            left_s = self._until - self._clock()
            if left_s <= 0 and self._missing:
                await self._look_for_a_later_life()
            await asyncio.sleep(min(_PAUSE_S, left_s) if left_s > 0 else _PAUSE_S)

    async def _look_for_a_later_life(self) -> None:
        """Wait no longer for whoever has not begun to claim, unless another life may hear it."""
        try:
            current = await self._cluster.is_current()
        except AuthorityUnavailableError:
            return  # nobody can tell where replicas are led
        if not current:
            raise SupersededError("the cluster leads replicas to a later life of the state actor")
        self._waits = False

    def _hear(self, member: str) -> None:
        self._missing.pop(member, None)
        if not self._missing:
            self._heard_all.set()

    def take_over(self, session: Session, part: ClaimPart) -> list[Key]:
        """Take over what is newer than what is here; return the keys to be told in full."""
        return [
            *self._take_over(session, part.owned, session.claimed),
            *self._take_over(session, part.given_back, session.offered),
        ]

    def _take_over(
        self, session: Session, states: StateBatch, named: dict[Key, Version]
    ) -> list[Key]:
        wanted = []
        for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
            named[key] = version
            if not self._is_newer(session, key, version):
                continue
            if len(hidden):
                self._table.adopt(key, Copy(version, hidden, states.receipts.get(key, ())))
            else:
                wanted.append(key)
        return wanted

    def _is_newer(self, session: Session, key: Key, version: Version) -> bool:
        if self._resets.voids(key.run, version.epoch):
            return False
        record = self._table.get(key)
        if record is None:
            return True
        return record.owner in (None, session) and record.version < version

    def settle(self, session: Session) -> list[Key]:
        """Begin a session's normal life; return the keys of its claim that it has not got."""
        lost: list[Key] = []
        kept, left = [], []
        for key, version in session.claimed.items():
            record = self._table.get(key)
            if record and record.owner in (None, session) and record.version == version:
                kept.append(record)
            else:
                lost.append(key)
        for key, version in session.offered.items():
            record = self._table.get(key)
            # of the same grant, and as new: another owner may be waiting for its grant by now
            if record and record.version.epoch == version.epoch and record.version >= version:
                left.append(record)
            else:
                lost.append(key)
        session.claimed, session.offered = {}, {}
        self._ownership.settle_claim(session, kept)
        for record in left:
            if record.owner is None:
                self._table.left(record)
        return lost
