"""Which epochs of a run are void: those before it was last reset or forgotten."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from deployments.stateful.authority.fenced_writer import FencedWriter
from deployments.stateful.authority.rows import pack_epoch, reset_row
from deployments.stateful.authority.write_behind import ROWS_PER_WRITE
from deployments.stateful.layout import Partition


class _Void(NamedTuple):
    epoch: int
    noted_at: float


class Resets:
    """Remembers, and keeps in the store, under which epoch a run was cleared.

    Args:
        keep_s: a replica claims nothing that was not used for so long.
    """

    def __init__(
        self, writer: FencedWriter, partition: Partition, keep_s: float, clock: Callable[[], float]
    ) -> None:
        self._writer = writer
        self._partition = partition
        self._keep_s = keep_s
        self._clock = clock
        self._void: OrderedDict[str, _Void] = OrderedDict()  # by the time of noting
        self._being_kept: Counter[str] = Counter()  # runs whose rows are being written

    def restore(self, run: str, epoch: int) -> None:
        """Take over what the store has kept of an earlier life."""
        self.note(run, epoch)

    def note(self, run: str, epoch: int) -> None:
        """Hold every copy of a run with this epoch or an earlier one for void."""
        self._void[run] = _Void(epoch, self._clock())
        self._void.move_to_end(run)

    def voids(self, run: str, epoch: int) -> bool:
        return run in self._void and epoch <= self._void[run].epoch

    async def keep(self, run: str, epoch: int, erased: list[str]) -> None:
        """Write a reset, in one with the erasing of copies.

        Args:
            erased: rows of the copies that it voids.
        """
        self._being_kept[run] += 1
        try:
            await self._writer.write({reset_row(self._partition, run): pack_epoch(epoch)}, erased)
            self.note(run, epoch)
        finally:
            self._being_kept[run] -= 1
            self._being_kept += Counter()  # without those that have come to zero

    @property
    def rows(self) -> list[str]:
        return [reset_row(self._partition, run) for run in self._void]

    async def prune(self) -> None:
        """Forget what no claim can bring back any more."""
        too_old = self._clock() - self._keep_s
        old: list[str] = []
        for run, void in self._void.items():
            if void.noted_at >= too_old or len(old) == ROWS_PER_WRITE:
                break
            if run not in self._being_kept:
                old.append(run)
        if old:
            for run in old:
                del self._void[run]
            await self._writer.write({}, [reset_row(self._partition, run) for run in old])
