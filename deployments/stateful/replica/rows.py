"""Steps that one caller asks for together, as columns: no object for each step.

Rows whose states are here, with no earlier request, are stepped at once. Any other row becomes a
request in the queues, and its outcome takes its place among the others later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from deployments.stateful.protocol import Key, Output
from deployments.stateful.replica.held_state import HeldState
from deployments.stateful.replica.queues import Request, StepResult, StepResults
from deployments.stateful.replica.receipts import StepReceipts, note
from deployments.trace_context import CURRENT, Trace

RowOutcome = StepResult | Exception


class Keys(Sequence[Key]):
    """The keys of a call's rows. A caller that steps the same states again and again keeps them."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = tuple(keys)
        self._parts: dict[Any, Keys] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __getitem__(self, row: Any) -> Any:
        return self._keys[row]

    @cached_property
    def most_of_one(self) -> int:
        """How many rows the most frequent key has."""
        return max(Counter(self._keys).values())

    def in_namespace(self, namespace: str) -> Keys:
        """Return the keys of the same entities in a namespace; "" is the default one."""
        if not namespace:
            return self
        part = self._parts.get(namespace)
        if part is None:
            part = self._parts[namespace] = Keys(each.in_namespace(namespace) for each in self)
        return part

    def take(self, rows: Sequence[int]) -> Keys:
        """Return those of some rows."""
        if not isinstance(rows, range):
            return Keys([self._keys[row] for row in rows])
        if len(rows) == len(self._keys):
            return self
        part = self._parts.get(rows)
        if part is None:
            part = self._parts[rows] = Keys(self._keys[rows.start : rows.stop])
        return part


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

    keys: Keys
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


class Outcomes(Sequence[RowOutcome]):
    """The outcomes of B rows, as columns.

    Attributes:
        outputs, steps: of B rows; None in place of the output of a row that has failed.
        errors: by row.
    """

    def __init__(self, n_rows: int) -> None:
        self.outputs: list[Output | None] = [None] * n_rows
        self.steps = [0] * n_rows
        self.errors: dict[int, Exception] = {}

    def __len__(self) -> int:
        return len(self.outputs)

    def __getitem__(self, row: Any) -> Any:
        output = self.outputs[row]
        return self.errors[row] if output is None else StepResult(output, self.steps[row])


class RowOutcomes:
    """The outcomes of B rows, as they come."""

    def __init__(self, n_rows: int) -> None:
        self._outcomes = Outcomes(n_rows)
        self._n_missing = n_rows
        self._complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        return not self._n_missing

    def has(self, row: int) -> bool:
        return self._outcomes.outputs[row] is not None or row in self._outcomes.errors

    def set(self, rows: Sequence[int], results: StepResults) -> None:
        """Note the results of rows that had no outcome."""
        outputs, steps = self._outcomes.outputs, self._outcomes.steps
        if isinstance(rows, range):
            at = slice(rows.start, rows.stop)
            assert not any(outputs[at]), "a row has one outcome"
            outputs[at], steps[at] = results
        else:
            for row, output, step in zip(rows, *results, strict=True):
                assert not self.has(row), "a row has one outcome"
                outputs[row], steps[row] = output, step
        self._note(len(rows))

    def fail(self, rows: Iterable[int], error: Exception) -> None:
        """Let those of some rows fail that have no outcome."""
        failed = dict.fromkeys((row for row in rows if not self.has(row)), error)
        self._outcomes.errors |= failed
        self._note(len(failed))

    def _note(self, n_rows: int) -> None:
        self._n_missing -= n_rows
        if not self._n_missing and not self._complete.done():
            self._complete.set_result(None)

    def set_exception(self, error: Exception) -> None:
        """Let every row without an outcome fail."""
        self.fail(range(len(self._outcomes)), error)

    def cancel(self) -> None:
        """Let no further step be made; the caller has disconnected."""
        self.set_exception(ConnectionAbortedError("The caller has disconnected"))

    async def all(self) -> Outcomes:
        """Return the outcomes of all rows."""
        if self._n_missing:
            await self._complete
        return self._outcomes


class RowResponse:
    """The outcome of one row, in the form of a future that a request has."""

    __slots__ = ("_outcomes", "_row")

    def __init__(self, outcomes: RowOutcomes, row: int) -> None:
        self._outcomes, self._row = outcomes, row

    def done(self) -> bool:
        return self._outcomes.has(self._row)

    def set_result(self, result: StepResult) -> None:
        self._outcomes.set((self._row,), StepResults((result.output,), (result.step,)))

    def set_exception(self, error: Exception) -> None:
        self._outcomes.fail((self._row,), error)


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

    def note(self, states: Iterable[HeldState], results: StepResults) -> None:
        """Note the receipts of the rows that have an idempotency key."""
        ids, fingerprints = self._rows.request_ids, self._rows.fingerprints
        if ids is None:
            return
        numbers = self._numbers
        if len(numbers) < len(ids):
            ids, fingerprints = [ids[n] for n in numbers], [fingerprints[n] for n in numbers]
        receipts = StepReceipts(ids, fingerprints, results.steps, results.outputs)
        note((each.receipts for each in states), receipts)

    def waiting(self) -> list[RowOutcomes]:
        """Return what is to fail if no commit is confirmed in time."""
        return [self._outcomes]

    def respond(self, which: Sequence[int] | None, results: StepResults) -> None:
        """Send the results of some rows, or of all, unless the caller has disconnected."""
        if self._outcomes.done():
            return
        if which is None:
            self._outcomes.set(self._numbers, results)
        else:
            self._outcomes.set([self._numbers[row] for row in which], results.take(which))

    def fail(self, which: Sequence[int] | None, error: Exception) -> None:
        """Fail some rows, or all."""
        rows = self._numbers if which is None else [self._numbers[row] for row in which]
        self._outcomes.fail(rows, error)
