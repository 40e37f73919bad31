"""What a restarted authority takes back from the replicas, whose memories outlive its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from deployments.inference.authority.table import Session, StateRecord, StateTable
from deployments.inference.protocol import Claim, Key, StateBatch, Version


class Recovery:
    """Judges claims.

    For one lease time after a restart an owner of the earlier life may still be stepping. In that
    time the authority grants nothing and takes over what owners claim; after it, nobody steps what
    nobody has claimed.

    Args:
        restarted: an earlier life may still have owners.
        incarnation: of the life that judges.
    """

    def __init__(
        self, table: StateTable, clock: Callable[[], float], restarted: bool, incarnation: int
    ) -> None:
        self._table = table
        self._clock = clock
        self._restarted = restarted
        self._incarnation = incarnation
        self._until = 0.0
        self._cleared: dict[str, int] = {}  # run -> epoch, resets of the earlier life

    @property
    def active(self) -> bool:
        return self._restarted and self._clock() < self._until

    def begin(self, duration_s: float) -> None:
        self._until = self._clock() + duration_s

    async def over(self) -> None:
        while self.active:
            await asyncio.sleep(max(0.0, self._until - self._clock()))

    def hear(self, claim: Claim) -> None:
        """Learn from a claim of an earlier life that there was one, and what it has reset."""
        if claim.incarnation not in (None, self._incarnation):
            self._restarted = True  # as a fresh actor, but somebody remembers an earlier one
        if self.active:
            self._clear_again(claim.resets)

    def _clear_again(self, resets: dict[str, int]) -> None:
        """Apply resets of the earlier life to what snapshots and claims have brought back."""
        for run, epoch in resets.items():
            self._cleared[run] = max(epoch, self._cleared.get(run, 0))
            for record in self._table.of_run(run):
                if record.owner is None and record.version.epoch <= epoch:
                    self._table.clear(record, epoch)
                    self._table.remove(record)

    def accept(self, claim: Claim, states: StateBatch, earlier: list[Session]) -> list[StateRecord]:
        """Take over the states that nobody has, or may have, stepped since, and return them.

        Args:
            states: those that the claim owns, or those that it has given back.
            earlier: sessions that the claiming replica had before.
        """
        claimed = zip(states.keys, states.versions, states.hidden, strict=True)
        return [
            self._table.adopt(key, version, hidden)
            for key, version, hidden in claimed
            if self._acceptable(claim, key, version, earlier)
        ]

    def _acceptable(self, claim: Claim, key: Key, version: Version, earlier: list[Session]) -> bool:
        record = self._table.get(key)
        if record is None:  # unless this is a restart, it was reset or has expired
            forgotten = claim.incarnation == self._incarnation or not self.active
            return not forgotten and version.epoch > self._cleared.get(key.run, 0)
        if record.version > version or (record.owner is not None and record.owner not in earlier):
            return False
        return self.active or record.version.epoch == version.epoch

    def still_owns(self, claim: Claim, record: StateRecord, earlier: list[Session]) -> bool:
        """Tell whether the claiming replica may go on stepping an accepted state."""
        if claim.incarnation == self._incarnation:
            return record.owner in earlier
        return claim.lease_valid and (record.owner is None or record.owner in earlier)
