"""Steps that one caller asks for together, as columns: no object for each step.

A row whose state is here, with no earlier request, is stepped at once with the others. Any other
row becomes a request in the queues, and its outcome takes its place among the others later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from deployments.stateful.protocol import Key, Receipt
from deployments.stateful.replica.queues import Request, StepResult
from deployments.trace_context import CURRENT, Trace

RowOutcome = StepResult | Exception


class Inputs(Protocol):
    """The model's inputs of B rows."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Any: ...

    def take(self, rows: Sequence[int]) -> Inputs:
        """Return those of some rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """B steps.

    Attributes:
        keys: in the default namespace.
        timeout_s: how long a row may wait for its state, if less than the options allow.
        request_ids: idempotency keys; None where no row has one.
        fingerprints: digests of the inputs, if there are idempotency keys.
        continues: whether a step fails unless its state has made one before.
        trace: that the call belongs to.
    """

    keys: Sequence[Key]
    inputs: Inputs
    timeout_s: float
    request_ids: Sequence[str | None] | None = None
    fingerprints: Sequence[str] = ()
    continues: bool = False
    trace: Trace | None = field(default_factory=CURRENT.get)

    def request_id(self, row: int) -> tuple[str | None, str]:
        """Return the idempotency key of a row, and the digest of its input."""
        if self.request_ids is None or self.request_ids[row] is None:
            return None, ""
        return self.request_ids[row], self.fingerprints[row]

    def request(self, row: int, key: Key, outcomes: RowOutcomes) -> Request:
        """Return a row for the queues.

        Args:
            key: in the namespace of the model.
        """
        return Request(
            key,
            self.keys[row].entity,
            self.inputs[row],
            RowResponse(outcomes, row),
            self.timeout_s,
            *self.request_id(row),
            continues=self.continues,
            trace=self.trace,
        )


class RowOutcomes:
    """The outcomes of B rows, as they come."""

    def __init__(self, n_rows: int) -> None:
        self._outcomes: list[RowOutcome | None] = [None] * n_rows
        self._n_missing = n_rows
        self._complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        return not self._n_missing

    def has(self, row: int) -> bool:
        return self._outcomes[row] is not None

    def set(self, rows: Iterable[int], outcomes: Iterable[RowOutcome]) -> None:
        """Note the outcomes of rows that had none."""
        known = self._outcomes
        for row, outcome in zip(rows, outcomes, strict=True):
            assert known[row] is None, "a row has one outcome"
            known[row] = outcome
            self._n_missing -= 1
        if not self._n_missing and not self._complete.done():
            self._complete.set_result(None)

    def set_exception(self, error: Exception) -> None:
        """Let every row without an outcome fail."""
        missing = [row for row, outcome in enumerate(self._outcomes) if outcome is None]
        self.set(missing, [error] * len(missing))

    def cancel(self) -> None:
        """Let no further step be made; the caller has disconnected."""
        self.set_exception(ConnectionAbortedError("The caller has disconnected"))

    async def all(self) -> list[RowOutcome]:
        """Return the outcome of each row."""
        if self._n_missing:
            await self._complete
        return [outcome for outcome in self._outcomes if outcome is not None]


class RowResponse:
    """The outcome of one row, in the form of a future that a request has."""

    __slots__ = ("_outcomes", "_row")

    def __init__(self, outcomes: RowOutcomes, row: int) -> None:
        self._outcomes, self._row = outcomes, row

    def done(self) -> bool:
        return self._outcomes.has(self._row)

    def set_result(self, result: StepResult) -> None:
        self._outcomes.set((self._row,), (result,))

    def set_exception(self, error: Exception) -> None:
        self._outcomes.set((self._row,), (error,))


class RowBatch:
    """Rows of different states, to be stepped together.

    Args:
        numbers: of the rows.
        keys: of these rows, in the namespace of the model.
    """

    def __init__(
        self, rows: Rows, outcomes: RowOutcomes, numbers: Sequence[int], keys: Sequence[Key]
    ) -> None:
        self.keys = keys
        self._rows, self._outcomes, self._numbers = rows, outcomes, numbers

    @property
    def inputs(self) -> Inputs:
        return self._rows.inputs.take(self._numbers)

    @property
    def traces(self) -> list[Trace | None]:
        return [self._rows.trace]

    def take(self, rows: Sequence[int]) -> RowBatch:
        numbers, keys = [self._numbers[row] for row in rows], [self.keys[row] for row in rows]
        return RowBatch(self._rows, self._outcomes, numbers, keys)

    def request(self, row: int) -> Request:
        return self._rows.request(self._numbers[row], self.keys[row], self._outcomes)

    def receipts(self, results: Sequence[StepResult]) -> list[Receipt | None]:
        """Return the receipt of each row that has an idempotency key; nothing if none has one."""
        ids, fingerprints = self._rows.request_ids, self._rows.fingerprints
        if ids is None:
            return []
        named = zip(self._numbers, results, strict=True)
        return [
            None if (id := ids[n]) is None else Receipt(id, fingerprints[n], step, output)
            for n, (output, step) in named
        ]

    def responses(self) -> list[RowResponse]:
        return [RowResponse(self._outcomes, number) for number in self._numbers]

    def waiting(self) -> list[RowOutcomes]:
        """Return what is to fail if no commit is confirmed in time."""
        return [self._outcomes]

    def respond(self, results: Sequence[StepResult]) -> None:
        self._outcomes.set(self._numbers, results)
