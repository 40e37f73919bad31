"""Memory of a replica's states: a row of arrays for each, so that a batch costs a few array calls.

Plain values: nothing here waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
RowNumbers = NDArray[np.intp]
Selection = slice | RowNumbers
"""Which rows: a slice of consecutive ones takes a third of the time of their numbers."""

_FIRST_CAPACITY = 64
_COUNTERS = np.dtype(
    [
        ("step", np.int64),
        ("sent", np.int64),
        ("committed", np.int64),
        ("owned", np.bool_),
        ("dirty", np.bool_),
    ],
    align=True,
)


def select(rows: Sequence[int]) -> Selection:
    """Return what selects these rows of a slab, in their order."""
    n_rows = len(rows)
    if n_rows and rows[-1] - rows[0] == n_rows - 1:
        first = rows[0]
        if n_rows == 1 or rows == [*range(first, first + n_rows)]:
            return slice(first, first + n_rows)
    return np.array(rows, np.intp)


class Slab:
    """Rows of states and of their counters. What a row means is in
    :class:`~deployments.stateful.replica.held_state.HeldState`.

    Attributes:
        states: (capacity, \\*shape).
        steps, sent, committed, owned, dirty: (capacity,), views of one array.
        selections: batches of owned states, by the keys for which they were selected. All are
            dropped when any state is no longer owned: they would keep it in memory.
    """

    def __init__(self) -> None:
        self.states: Array = np.empty((0, 0))
        self._counters = np.zeros(0, _COUNTERS)
        self._free: list[int] = []
        self.selections: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._name_columns()

    def _name_columns(self) -> None:
        counters = self._counters
        self.steps: NDArray[np.int64] = counters["step"]
        self.sent: NDArray[np.int64] = counters["sent"]
        self.committed: NDArray[np.int64] = counters["committed"]
        self.owned: NDArray[np.bool_] = counters["owned"]
        self.dirty: NDArray[np.bool_] = counters["dirty"]

    def take(self) -> int:
        """Return a free row, with counters of 0."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._counters[row] = 0
        return row

    def free(self, row: int) -> None:
        self._free.append(row)

    def put(self, row: int, state: Array) -> None:
        """Store a state. The first one decides the shape and data type of all."""
        if self.states.shape[1:] != state.shape or self.states.dtype != state.dtype:
            assert not self.states.size, "all states have one form"
            self.states = np.empty((len(self._counters), *state.shape), state.dtype)
        self.states[row] = state

    def _grow(self) -> None:
        used = len(self._counters)
        capacity = max(_FIRST_CAPACITY, 2 * used)
        counters, self._counters = self._counters, np.zeros(capacity, _COUNTERS)
        self._counters[:used] = counters
        if self.states.size:
            states = self.states
            self.states = np.empty((capacity, *states.shape[1:]), states.dtype)
            self.states[:used] = states
        self._free.extend(range(capacity - 1, used - 1, -1))
        self._name_columns()
