"""How runs are forgotten: reset by a client, or idle for too long."""

from __future__ import annotations

import asyncio

from deployments.inference.authority.background import BackgroundTasks
from deployments.inference.authority.ownership import Ownership
from deployments.inference.authority.table import Clearing, StateRecord, StateTable
from deployments.inference.authority.turns import Turns


class Forgetting:
    """Takes the states of a run from their owners and clears them, one clearing of a run at a time.

    Args:
        background: where idle runs are forgotten.
    """

    def __init__(
        self, table: StateTable, ownership: Ownership, background: BackgroundTasks
    ) -> None:
        self._table = table
        self._ownership = ownership
        self._background = background
        self._turns = Turns()
        self._expiring: set[str] = set()

    async def reset(self, run: str) -> int:
        """Clear a run.

        Returns:
            The epoch under which it was cleared; whatever has an earlier one is void.
        """
        async with self._turns.of(run):
            clearing = Clearing()
            return self._clear(await self._take_run(run, clearing), clearing)

    def expire(self, idle_since: float) -> None:
        """Begin to forget the runs that nobody has used since that moment."""
        for run in self._table.idle_runs(idle_since):
            if run not in self._expiring:
                self._expiring.add(run)
                self._background.spawn(self._expire(run, idle_since))

    async def _expire(self, run: str, idle_since: float) -> None:
        try:
            async with self._turns.of(run):
                clearing = Clearing()
                records = await self._take_run(run, clearing)
                if records and not self._table.used_since(run, idle_since):
                    self._clear(records, clearing)
                    return
                for record in records:  # it was used while they were waited for
                    self._ownership.free(record)
        finally:
            self._expiring.discard(run)

    async def _take_run(self, run: str, clearing: Clearing) -> list[StateRecord]:
        """Take every state of a run from its owner, those that are new meanwhile included."""
        records: list[StateRecord] = []
        try:
            while more := [r for r in self._table.of_run(run) if r.owner is not clearing]:
                await self._ownership.take(more, clearing)
                records += more
        except asyncio.CancelledError:
            for record in records:
                self._ownership.release(record)
            raise
        return records

    def _clear(self, records: list[StateRecord], clearing: Clearing) -> int:
        epoch = self._table.next_epoch()
        for record in records:
            assert record.owner is clearing, "invariant 6: what is cleared has been taken"
            self._table.clear(record, epoch)
            self._ownership.free(record)
            if record.owner is None:
                self._table.remove(record)
        return epoch
