"""The seat of one authority: how it comes into it, may act in it, and leaves it."""

from __future__ import annotations

from collections.abc import Callable

from deployments.inference.authority.cluster import Cluster
from deployments.inference.authority.ledger import Ledger, SeatRow
from deployments.inference.authority.resets import Resets
from deployments.inference.authority.rows import (
    Copy,
    key_of,
    resets_prefix,
    stamp_of,
    unpack_copy,
    unpack_epoch,
)
from deployments.inference.authority.succession import (
    wait_for_earlier_layouts,
    wait_for_predecessor,
)
from deployments.inference.authority.table import StateTable
from deployments.inference.authority.tenure import Tenure
from deployments.inference.authority.write_behind import ROWS_PER_WRITE, Copies
from deployments.inference.layout import Seat, StateStore
from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import AuthorityUnavailableError, DismissedError, Key
from deployments.store import StoreUnavailable


class Office:
    """Whether the authority may act, and the store's part in it.

    Attributes:
        ledger: for writes under the condition that the seat is still this life's.
        tenure: how long that is certain.
    """

    def __init__(
        self,
        store: StateStore,
        table: str,
        seat: Seat,
        cluster: Cluster,
        options: InferenceOptions,
        clock: Callable[[], float],
    ) -> None:
        self.ledger = Ledger(store, table, seat)
        self.tenure = Tenure(self.ledger, cluster, options.tenure_s, clock)
        self._seat = seat
        self._cluster = cluster
        self._options = options
        self._clock = clock
        self._taken_at = 0.0
        self._opened = False
        self._closed = False
        self._left = False

    # Coming

    async def take(self) -> SeatRow:
        """Take the seat, and return the row of whoever had it before.

        Raises:
            AuthorityUnavailableError: the store does not serve, or the cluster has started a later
                life of this authority.
        """
        if not await self._cluster.is_current():
            raise AuthorityUnavailableError("the cluster has started another state actor")
        taken_at = self._clock()
        before = await self.ledger.take(self._cluster.session, self._cluster.process)
        self._taken_at = self._clock()
        self.tenure.begin(taken_at)
        return before

    async def wait_for_succession(self, before: SeatRow) -> None:
        """Return when nobody of an earlier life or layout can act any more."""
        until = self._taken_at + self._options.tenure_s + self._options.lease_margin_s
        await wait_for_predecessor(before, self._cluster, until, self._clock)
        await wait_for_earlier_layouts(self._seat, self.ledger, self._cluster)

    async def load(self, table: StateTable, resets: Resets, copies: Copies) -> None:
        """Read the copies and resets of this seat; have copies that are void erased."""
        stamp = None
        if not self._options.restore_after_restart:
            stamp = stamp_of(self._cluster.session)
        mine = resets_prefix(self._seat)
        found: list[tuple[Key, Copy | None]] = []
        garbage: list[str] = []
        try:
            async for row, value in self.ledger.store.scan(self.ledger.table):
                if (key := key_of(row)) is not None:
                    if self._seat.has(key):
                        found.append((key, unpack_copy(value, stamp)))
                elif row.startswith(mine):
                    resets.restore(row.removeprefix(mine), unpack_epoch(value))
                elif row.startswith("reset/") and _generation(row) < self._seat.generation:
                    garbage.append(row)
        except StoreUnavailable as error:
            raise AuthorityUnavailableError(f"the store does not serve: {error}") from error
        for key, copy in found:  # a copy may have been written behind its reset
            if copy is None or resets.voids(key.run, copy.version.epoch):
                copies.erase(key)
            else:
                table.restore(key, copy)
        for start in range(0, len(garbage), ROWS_PER_WRITE):
            await self.ledger.write({}, garbage[start : start + ROWS_PER_WRITE])

    def open(self) -> None:
        """Begin to act."""
        self._opened = True

    @property
    def first_epoch(self) -> int:
        """A number above every epoch of earlier lives, and of earlier layouts (invariant 2)."""
        return (self._seat.generation << 32 | self.ledger.row.incarnation) << 32

    # Acting

    def may_act(self) -> bool:
        return self._opened and not self._left and self.tenure.certain

    def require(self) -> None:
        """Check that nobody can have succeeded this life.

        Raises:
            AuthorityUnavailableError: that is not certain now.
        """
        if not self.may_act():
            raise AuthorityUnavailableError("the state actor cannot tell whether it may still act")

    def require_open(self, generation: int | None = None) -> None:
        """Check, too, that the seat is not being given up.

        Raises:
            DismissedError: it is, or the caller is of another layout.
        """
        self.require()
        if self._closed or generation not in (None, self._seat.generation):
            raise DismissedError("The hidden states have moved to another layout")

    # Leaving

    def close(self) -> None:
        self._closed = True

    async def resign(self) -> None:
        """Leave the seat to the next life; from here on nobody is heard."""
        self.require()
        self._left = True
        await self.ledger.resign()

    async def give_up(self, rows: list[str]) -> None:
        """Leave the seat for good; from here on nobody is heard.

        Args:
            rows: that served it alone.
        """
        self._left = False  # an attempt before may have failed
        self.require()
        self._left = True
        for start in range(0, max(0, len(rows) - ROWS_PER_WRITE), ROWS_PER_WRITE):
            await self.ledger.write({}, rows[start : start + ROWS_PER_WRITE])
        await self.ledger.give_up(rows[-ROWS_PER_WRITE:])


def _generation(row: str) -> int:
    return int(row.split("/")[1])
