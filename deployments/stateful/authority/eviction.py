"""How states are taken from their owners: to reset a run, to forget an idle one, to give all up."""

from __future__ import annotations

import asyncio

from deployments.stateful.authority.background import BackgroundTasks
from deployments.stateful.authority.keyed_locks import KeyedLocks
from deployments.stateful.authority.ownership import Ownership
from deployments.stateful.authority.resets import Resets
from deployments.stateful.authority.rows import copy_row
from deployments.stateful.authority.table import Evictor, StateRecord, StateTable


class Eviction:
    """Takes the states of a run from their owners and clears them, one clearing of a run at a time.

    Args:
        resets: told what is void, before anybody is answered.
        background: where idle runs are forgotten.
    """

    def __init__(
        self,
        table: StateTable,
        ownership: Ownership,
        resets: Resets,
        background: BackgroundTasks,
    ) -> None:
        self._table = table
        self._ownership = ownership
        self._resets = resets
        self._background = background
        self._locks = KeyedLocks()
        self._expiring: set[str] = set()
        self._recaller_of_all = Evictor()

    async def reset(self, run: str) -> None:
        """Clear a run; return when the store knows it.

        Raises:
            AuthorityUnavailableError: the store does not serve. The states are as they were, but a
                later life of the authority may find them cleared.
        """
        async with self._locks.of(run):
            evictor = Evictor()
            records = await self._take_run(run, evictor)
            epoch = self._table.next_epoch()
            try:
                await self._resets.keep(run, epoch, [copy_row(record.key) for record in records])
            except BaseException:
                for record in records:
                    self._ownership.release(record)
                raise
            self._clear(records, evictor, epoch)

    def expire(self, idle_since: float) -> None:
        """Begin to forget the runs that nobody has used since that moment."""
        for run in self._table.idle_runs(idle_since):
            if run not in self._expiring:
                self._expiring.add(run)
                self._background.spawn(self._expire(run, idle_since))

    async def _expire(self, run: str, idle_since: float) -> None:
        try:
            async with self._locks.of(run):
                evictor = Evictor()
                records = await self._take_run(run, evictor)
                if records and not self._table.used_since(run, idle_since):
                    epoch = self._table.next_epoch()
                    self._resets.note(run, epoch)
                    self._clear(records, evictor, epoch)
                    return
                for record in records:  # it was used while they were waited for
                    self._ownership.free(record)
        finally:
            self._expiring.discard(run)

    async def take_all(self) -> None:
        """Take every state from its owner, for good; what is clearing a run ends before."""
        forever = self._recaller_of_all
        while more := [record for record in self._table if record.owner is not forever]:
            async with asyncio.TaskGroup() as group:
                for run in dict.fromkeys(record.key.run for record in more):
                    group.create_task(self._take_for_good(run))

    async def _take_for_good(self, run: str) -> None:
        async with self._locks.of(run):  # or each would wait for states that the other has
            forever = self._recaller_of_all
            more = [each for each in self._table.of_run(run) if each.owner is not forever]
            await self._ownership.take(more, forever)

    @property
    def has_all(self) -> bool:
        return all(record.owner is self._recaller_of_all for record in self._table)

    async def _take_run(self, run: str, evictor: Evictor) -> list[StateRecord]:
        """Take every state of a run from its owner, those that are new meanwhile included."""
        records: list[StateRecord] = []
        try:
            while more := [r for r in self._table.of_run(run) if r.owner is not evictor]:
                await self._ownership.take(more, evictor)
                records += more
        except asyncio.CancelledError:
            for record in records:
                self._ownership.release(record)
            raise
        return records

    def _clear(self, records: list[StateRecord], evictor: Evictor, epoch: int) -> None:
        for record in records:
            assert record.owner is evictor, "invariant 6: what is cleared has been taken"
            self._table.clear(record, epoch)
            self._ownership.free(record)
            if record.owner is None:
                self._table.remove(record)
