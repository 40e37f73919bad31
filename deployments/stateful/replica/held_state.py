"""One state in a replica's memory, and different ones as a batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deployments.stateful.protocol import Grant, Key, Receipts, Version, made
from deployments.stateful.replica.phases import Phase
from deployments.stateful.replica.receipts import ReceiptCache
from deployments.stateful.replica.slab import Array, RowNumbers, Selection, Slab, select


class HeldCopy(NamedTuple):
    """A state at one moment."""

    key: Key
    version: Version
    state: Array
    receipts: Receipts


class HeldState:
    """One state in a replica's memory, which is a row of a slab for as long as this object lives.

    Attributes:
        epoch: of the grant.
        row: of the slab.
        phase: set by ``enter``.
        receipts: of steps whose requests had an idempotency key.

    The columns of the slab have the state, the number of its ``steps`` and, of these:

    - ``dirty``: the newest step is in no commit yet.
    - ``sent``: the latest step that was ever sent, and so may have been committed.
    - ``committed``: the latest step that is known to be committed.
    """

    __slots__ = ("epoch", "key", "phase", "receipts", "row", "slab")

    def __init__(self, key: Key, phase: Phase, slab: Slab) -> None:
        self.key = key
        self.epoch = 0
        self.slab = slab
        self.row = slab.take()
        self.receipts = ReceiptCache()
        self.phase = Phase.NOT_OWNED
        self.enter(phase)

    def __del__(self) -> None:
        self.slab.free(self.row)  # claims and commits in flight may have been the last to need it

    def enter(self, phase: Phase) -> None:
        if self.phase is Phase.OWNED:
            self.slab.selections.clear()
        self.phase = phase
        self.slab.owned[self.row] = phase is Phase.OWNED

    @property
    def version(self) -> Version:
        return Version(self.epoch, self.step)

    @property
    def step(self) -> int:
        return int(self.slab.steps[self.row])

    @property
    def committed(self) -> int:
        return int(self.slab.committed[self.row])

    @property
    def state(self) -> Array:
        """The state, which the next step overwrites."""
        state: Array = self.slab.states[self.row]
        return state

    def grant(self, grant: Grant, state: Array) -> None:
        """Become what the authority has granted."""
        slab, row = self.slab, self.row
        self.epoch, step = grant.version
        slab.steps[row] = slab.sent[row] = slab.committed[row] = step
        slab.put(row, state)
        self.receipts = ReceiptCache.of(grant.receipts)

    def copy(self) -> HeldCopy:
        return HeldCopy(self.key, self.version, self.state.copy(), self.receipts.all())


class HeldBatch:
    """B different states, as they are stepped, committed or answered together.

    Attributes:
        by_key: the states, in their order.
        rows: selects their rows of the slab.
    """

    __slots__ = ("by_key", "rows", "slab")

    def __init__(self, states: Iterable[HeldState], slab: Slab) -> None:
        self.by_key = {each.key: each for each in states}
        self.rows: Selection = select([each.row for each in self.by_key.values()])
        self.slab = slab

    def __len__(self) -> int:
        return len(self.by_key)

    @property
    def states(self) -> list[HeldState]:
        return list(self.by_key.values())

    @property
    def keys(self) -> list[Key]:
        return list(self.by_key)

    @property
    def receipts(self) -> list[ReceiptCache]:
        return [each.receipts for each in self.by_key.values()]

    @property
    def owned(self) -> bool:
        """Whether all are owned, whether or not the lease is valid."""
        return bool(np.count_nonzero(self.slab.owned[self.rows]) == len(self.by_key))

    @property
    def row_numbers(self) -> RowNumbers:
        return np.array([each.row for each in self.by_key.values()], np.intp)

    @property
    def steps(self) -> NDArray[np.int64]:
        """(B,) copies of the numbers of steps."""
        return _copied(self.slab.steps, self.rows)

    @property
    def next_steps(self) -> list[int]:
        """B numbers: each counts the steps of a state, the next one included."""
        steps: list[int] = (self.slab.steps[self.rows] + 1).tolist()
        return steps

    @property
    def versions(self) -> list[Version]:
        epochs = [each.epoch for each in self.by_key.values()]
        return list(made(Version, epochs, self.steps.tolist()))

    def gather(self) -> Array:
        """Return copies of the states, (B, \\*shape)."""
        return _copied(self.slab.states, self.rows)

    def part(self, which: Iterable[int]) -> HeldBatch:
        states = self.states
        return HeldBatch([states[each] for each in which], self.slab)


def _copied(column: Array, rows: Selection) -> Array:
    return column[rows].copy() if isinstance(rows, slice) else column.take(rows, axis=0)
