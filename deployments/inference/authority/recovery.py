"""What a new life of the authority takes back from the replicas, whose memories outlive its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from deployments.inference.authority.cluster import Cluster
from deployments.inference.authority.ownership import Ownership
from deployments.inference.authority.resets import Resets
from deployments.inference.authority.rows import Copy
from deployments.inference.authority.table import Session, StateRecord, StateTable
from deployments.inference.protocol import Claimed, ClaimPart, Key, StateBatch, Version

logger = logging.getLogger(__name__)

_PROBE_PERIOD_S = 0.1


class Recovery:
    """Judges claims, and knows when enough were heard (invariant 8)."""

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
        self._until = 0.0
        self._heard_all = asyncio.Event()

    def begin(self, members: Iterable[str], leases_end_at: float) -> None:
        """Begin to wait for the members of the earlier life, whose leases end by that moment."""
        self._missing = dict.fromkeys(members)
        self._until = leases_end_at

    @property
    def missing(self) -> tuple[str, ...]:
        """Members that may hold states which nobody has heard of."""
        return tuple(self._missing) if self._active else ()

    @property
    def _active(self) -> bool:
        if not self._missing:
            return False
        return self._clock() < self._until or any(
            session.claiming and session.replica in self._missing
            for session in self._ownership.sessions.values()
        )

    async def over(self) -> None:
        """Return when states may be granted."""
        while self._active:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PROBE_PERIOD_S):
                    await self._heard_all.wait()

    async def probe(self) -> None:
        """Wait no longer for members that have died."""
        while self._active:
            for member in list(self._missing):
                if not await self._cluster.is_alive(member):
                    logger.warning("Replica %s is dead; its claim is not waited for.", member)
                    self._hear(member)
            await asyncio.sleep(_PROBE_PERIOD_S)

    def _hear(self, member: str) -> None:
        self._missing.pop(member, None)
        if not self._missing:
            self._heard_all.set()

    def judge(self, session: Session, part: ClaimPart) -> Claimed:
        """Take over the newest copies of states that nobody else has."""
        wanted: list[Key] = []
        given_back = self._take_over(session, part.given_back, wanted)
        owned = self._take_over(session, part.owned, wanted)
        kept = [record for record in owned if record.owner is session or part.lease_valid]
        for record in kept:
            self._ownership.keep(record, session)
        for record in (*given_back, *owned):
            if record.owner is None:
                self._table.left(record)
        if part.last:
            self._ownership.settle_claim(session)
            self._hear(session.replica)
        accepted = [each.key for each in (*given_back, *owned)]
        return Claimed([each.key for each in kept], accepted, wanted)

    def _take_over(
        self, session: Session, states: StateBatch, wanted: list[Key]
    ) -> list[StateRecord]:
        """Return the records of the states that are taken over; note those to be told in full."""
        taken_over = []
        for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
            if not self._may_take_over(session, key, version):
                continue
            if len(hidden) or self._table.has(key, version):
                copy = Copy(version, hidden, states.receipts.get(key, ()))
                taken_over.append(self._table.adopt(key, copy))
            else:
                wanted.append(key)
        return taken_over

    def _may_take_over(self, session: Session, key: Key, version: Version) -> bool:
        if self._resets.voids(key.run, version.epoch):
            return False
        record = self._table.get(key)
        if record is None:
            return True
        return record.owner in (None, session) and record.version <= version
