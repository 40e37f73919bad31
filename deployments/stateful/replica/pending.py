"""Responses that wait until their steps are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deployments.stateful.protocol import OutcomeUnknownError, StaleSessionError
from deployments.stateful.replica.held_state import HeldBatch, HeldState
from deployments.stateful.replica.queues import StepResults
from deployments.stateful.replica.slab import RowNumbers, Slab


class Answerable(Protocol):
    """B steps whose responses may wait."""

    def respond(self, which: Sequence[int] | None, results: StepResults) -> None: ...

    def fail(self, which: Sequence[int] | None, error: Exception) -> None: ...


class PendingSteps:
    """The responses of a replica that wait until their steps are committed.

    Attributes:
        slab: has the states of all authorities.
    """

    def __init__(self) -> None:
        self.slab = Slab()
        self._unsent: list[_Pending] = []  # no commit that is in flight has their steps
        self._sent: list[_Pending] = []

    def __len__(self) -> int:
        return len(self._unsent) + len(self._sent)

    def add(self, held: HeldBatch, batch: Answerable, results: StepResults) -> None:
        """Let B responses wait, each until its state is committed up to its step."""
        steps = np.array(results.steps, np.int64)
        in_flight = np.count_nonzero(self.slab.sent[held.rows] >= steps)
        waiting = self._sent if in_flight else self._unsent
        waiting.append(_Pending(held, batch, results, held.row_numbers, steps))

    def note_sent(self) -> None:
        """Note that the steps so far are sent: until then no commit can have them."""
        self._sent += self._unsent
        self._unsent = []

    def respond(self) -> None:
        """Send the responses whose steps are committed by now."""
        committed = self.slab.committed
        for each in self._sent:
            each.settle(committed[each.rows] >= each.steps, each.respond)
        self._forget()

    def fail(self, states: Iterable[HeldState]) -> None:
        """Fail the responses of states whose steps are not, or may not be, part of the state."""
        rows = [each.row for each in states]
        if rows and len(self):
            for each in (*self._sent, *self._unsent):
                unknown = each.steps <= self.slab.sent[each.rows]
                failed = np.isin(each.rows, rows)
                each.settle(failed & unknown, partial(each.fail, OutcomeUnknownError()))
                failed = np.isin(each.rows, rows)
                stale = StaleSessionError("The hidden state was granted to another replica")
                each.settle(failed, partial(each.fail, stale))
            self._forget()

    def _forget(self) -> None:
        self._sent = [each for each in self._sent if len(each.rows)]
        self._unsent = [each for each in self._unsent if len(each.rows)]


@dataclass(slots=True)
class _Pending:
    """A batch that waits.

    Attributes:
        held: keeps the rows of its states.
        rows, steps: of the responses that are still to be sent.
        which: of the batch they are; None for all.
    """

    held: HeldBatch
    batch: Answerable
    results: StepResults
    rows: RowNumbers
    steps: NDArray[np.int64]
    which: NDArray[np.intp] | None = None

    def settle(self, ended: NDArray[np.bool_], end: Callable[[Sequence[int] | None], None]) -> None:
        """End some of the responses that are still to be sent."""
        n = np.count_nonzero(ended)
        if n and n == len(ended):
            end(None if self.which is None else self.which.tolist())
            self.rows, self.steps = self.rows[:0], self.steps[:0]
        elif n:
            which = np.arange(len(ended)) if self.which is None else self.which
            end(which[ended].tolist())
            left = ~ended
            self.which, self.rows, self.steps = which[left], self.rows[left], self.steps[left]

    def respond(self, which: Sequence[int] | None) -> None:
        self.batch.respond(which, self.results)

    def fail(self, error: Exception, which: Sequence[int] | None) -> None:
        self.batch.fail(which, error)
