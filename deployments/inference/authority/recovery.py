"""What a new life of the authority takes back from the replicas, whose memories outlive its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

from deployments.inference.authority.cluster import Cluster
from deployments.inference.authority.ownership import Ownership
from deployments.inference.authority.resets import Resets
from deployments.inference.authority.rows import Copy
from deployments.inference.authority.table import Session, StateRecord, StateTable
from deployments.inference.protocol import Claimed, ClaimPart, Key, StateBatch

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
        given_back = [self._accept(session, *each) for each in _copies(part.given_back)]
        owned = [self._accept(session, *each) for each in _copies(part.owned)]
        taken_over = [record for record in (*given_back, *owned) if record is not None]
        kept = [
            record for record in owned if record and (record.owner is session or part.lease_valid)
        ]
        for record in kept:
            self._ownership.keep(record, session)
        for record in taken_over:
            if record.owner is None:
                self._table.left(record)
        if part.last:
            self._ownership.settle_claim(session)
            self._hear(session.replica)
        return Claimed([each.key for each in kept], [each.key for each in taken_over])

    def _accept(self, session: Session, key: Key, copy: Copy) -> StateRecord | None:
        if self._resets.voids(key.run, copy.version.epoch):
            return None
        record = self._table.get(key)
        if record is not None:
            if record.owner is not None and record.owner is not session:
                return None
            if record.version > copy.version:
                return None
        return self._table.adopt(key, copy)


def _copies(states: StateBatch) -> Iterator[tuple[Key, Copy]]:
    for key, version, hidden in zip(states.keys, states.versions, states.hidden, strict=True):
        yield key, Copy(version, hidden, states.receipts.get(key, ()))
