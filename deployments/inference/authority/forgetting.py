"""How states are taken from their owners: to reset a run, to forget an idle one, to give all up."""

from __future__ import annotations

import asyncio

from deployments.inference.authority.background import BackgroundTasks
from deployments.inference.authority.ownership import Ownership
from deployments.inference.authority.resets import Resets
from deployments.inference.authority.rows import copy_row
from deployments.inference.authority.table import Recaller, StateRecord, StateTable
from deployments.inference.authority.turns import Turns


class Forgetting:
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
        self._turns = Turns()
        self._expiring: set[str] = set()
        self._recaller_of_all = Recaller()

    async def reset(self, run: str) -> None:
        """Clear a run; return when the store knows it.

        Raises:
            AuthorityUnavailableError: the store does not serve. The states are as they were, but a
                later life of the authority may find them cleared.
        """
        async with self._turns.of(run):
            recaller = Recaller()
            records = await self._take_run(run, recaller)
            epoch = self._table.next_epoch()
            try:
                await self._resets.keep(run, epoch, [copy_row(record.key) for record in records])
            except BaseException:
                for record in records:
                    self._ownership.release(record)
                raise
            self._clear(records, recaller, epoch)

    def expire(self, idle_since: float) -> None:
        """Begin to forget the runs that nobody has used since that moment."""
        for run in self._table.idle_runs(idle_since):
            if run not in self._expiring:
                self._expiring.add(run)
                self._background.spawn(self._expire(run, idle_since))

    async def _expire(self, run: str, idle_since: float) -> None:
        try:
            async with self._turns.of(run):
                recaller = Recaller()
                records = await self._take_run(run, recaller)
                if records and not self._table.used_since(run, idle_since):
                    epoch = self._table.next_epoch()
                    self._resets.note(run, epoch)
                    self._clear(records, recaller, epoch)
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
        async with self._turns.of(run):  # or each would wait for states that the other has
            forever = self._recaller_of_all
            more = [each for each in self._table.of_run(run) if each.owner is not forever]
            await self._ownership.take(more, forever)

    @property
    def has_all(self) -> bool:
        return all(record.owner is self._recaller_of_all for record in self._table)

    async def _take_run(self, run: str, recaller: Recaller) -> list[StateRecord]:
        """Take every state of a run from its owner, those that are new meanwhile included."""
        records: list[StateRecord] = []
        try:
            while more := [r for r in self._table.of_run(run) if r.owner is not recaller]:
                await self._ownership.take(more, recaller)
                records += more
        except asyncio.CancelledError:
            for record in records:
                self._ownership.release(record)
            raise
        return records

    def _clear(self, records: list[StateRecord], recaller: Recaller, epoch: int) -> None:
        for record in records:
            assert record.owner is recaller, "invariant 6: what is cleared has been taken"
            self._table.clear(record, epoch)
            self._ownership.free(record)
            if record.owner is None:
                self._table.remove(record)
