"""Recovery of a new term: it restores the states that replicas hold from their claims."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from deployments.stateful.authority.eviction import Resets
from deployments.stateful.authority.fenced_writer import SupersededError
from deployments.stateful.authority.ownership import Ownership
from deployments.stateful.authority.snapshots import Snapshot
from deployments.stateful.authority.table import NEVER, Session, StateTable
from deployments.stateful.layout import Cluster
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
    """Collects claims, and settles them when it has enough of them (invariant 8).

    It waits for the members that have not claimed yet. A member is not waited for any longer once
    it has claimed, once it is known to be dead, or once its lease has expired: after that, only
    members whose session has begun to claim are waited for.
    """

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
        self._n_claimed = self._n_dead = 0
        self._leases_end_at = 0.0
        self._leases_may_live = False
        self._all_claimed = asyncio.Event()
        self._unsettled = 0

    def begin(self, members: Iterable[str], leases_end_at: float) -> None:
        """Wait for the members of the earlier term, whose leases end by that moment."""
        self._missing = dict.fromkeys(members)
        self._n_claimed = self._n_dead = 0
        self._leases_end_at = leases_end_at
        self._leases_may_live = True

    def __str__(self) -> str:
        late = len(self._missing)
        return f"{self._n_claimed} replicas claimed, {self._n_dead} were dead, {late} were late"

    @property
    def missing(self) -> tuple[str, ...]:
        """Members that may still hold states which no claim has named."""
        return tuple(self._missing) if self._is_waiting else ()

    @property
    def _is_waiting(self) -> bool:
        return bool(self._missing) and (self._leases_may_live or self._any_is_claiming)

    @property
    def _any_is_claiming(self) -> bool:
        return any(
            session.claiming and session.replica in self._missing
            for session in self._ownership.sessions.values()
        )

    async def over(self) -> None:
        """Return when states may be granted: enough members claimed, and all claims are settled."""
        while self._is_waiting or self._unsettled:
            await self._wait()

    @asynccontextmanager
    async def claimed(self, replica: str, renew: Callable[[], Session]) -> AsyncIterator[Session]:
        """Wait, with a complete claim, for the claims of all other members.

        Until then another replica may claim a later grant of the same state. The order is:

        1. The claim counts as received, and as unsettled: from here on ``over`` blocks, so no
           checkout is granted before the claim is settled.
        2. While other members are missing, this waits. Each round renews the session, or raises
           if the session has ended meanwhile.
        3. The caller settles the claim in the ``with`` block, without awaiting.
        4. The claim is no longer unsettled, and ``over`` may return.

        Args:
            renew: returns the session with its lease renewed, which must not expire meanwhile.
        """
        self._n_claimed += replica in self._missing
        self._mark_received(replica)
        self._unsettled += 1
        try:
            while self._is_waiting:
                await self._wait()
                renew()
            yield renew()
        finally:
            self._unsettled -= 1

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await self._all_claimed.wait()
        await asyncio.sleep(0)  # let claims settle that woke up in this turn

    async def probe(self) -> None:
        """Stop waiting for members that have died, or whose leases have expired.

        Raises:
            SupersededError: members are missing, and the cluster has started a later term.
        """
        while self._is_waiting:
            for member in list(self._missing):
                if not await self._cluster.is_alive(member):
                    logger.warning("Replica %s is dead; its claim is not waited for", member)
                    self._n_dead += member in self._missing
                    self._mark_received(member)
            left_s = self._leases_end_at - self._clock()
            if left_s <= 0 and self._missing:
                await self._stop_waiting_unless_superseded()
            await asyncio.sleep(min(_PAUSE_S, left_s) if left_s > 0 else _PAUSE_S)

    async def _stop_waiting_unless_superseded(self) -> None:
        """Stop waiting for members without a session, unless they may claim with a later term."""
        try:
            current = await self._cluster.is_current()
        except AuthorityUnavailableError:
            return  # it is unknown where the replicas' calls go
        if not current:
            raise SupersededError("The cluster sends replicas to a later term of the state actor")
        self._leases_may_live = False

    def _mark_received(self, member: str) -> None:
        self._missing.pop(member, None)
        if not self._missing:
            self._all_claimed.set()

    def receive(self, session: Session, part: ClaimPart) -> list[Key]:
        """Adopt the states that are newer than the table's; return the keys of missing states."""
        return [
            *self._receive(session, part.owned, session.claimed, part.expired),
            *self._receive(session, part.released, session.released, part.expired),
        ]

    def _receive(
        self, session: Session, batch: StateBatch, named: dict[Key, Version], expired: bool
    ) -> list[Key]:
        wanted = []
        for key, version, state in zip(batch.keys, batch.versions, batch.states, strict=True):
            named[key] = version
            if not self._is_newer(session, key, version, expired):
                continue
            if len(state):
                claimed = Snapshot(version, state.tobytes(), batch.receipts.get(key, ()))
                self._table.adopt(key, claimed)
            else:
                wanted.append(key)
        return wanted

    def _is_newer(self, session: Session, key: Key, version: Version, expired: bool) -> bool:
        if self._resets.voids(key.run, version.epoch):
            return False
        record = self._table.get(key)
        if expired and (record is None or record.version == NEVER):
            return False  # it may have been cleared, and the reset forgotten
        return record is None or (record.owner in (None, session) and record.version < version)

    def settle(self, session: Session) -> list[Key]:
        """Begin a session's normal operation; return the keys of its claim that it has lost."""
        lost: list[Key] = []
        kept, released = [], []
        for key, version in session.claimed.items():
            record = self._table.get(key)
            if record and record.owner in (None, session) and record.version == version:
                kept.append(record)
            else:
                lost.append(key)
        for key, version in session.released.items():
            record = self._table.get(key)
            # Of the same grant, and as new: another owner may wait for its grant by now.
            if record and record.version.epoch == version.epoch and record.version >= version:
                released.append(record)
            else:
                lost.append(key)
        session.claimed, session.released = {}, {}
        self._ownership.settle_claim(session, kept)
        for record in released:
            if record.owner is None:
                self._table.expedite_snapshot(record)
        return lost
