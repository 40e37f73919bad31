"""Steps that callers ask for, as columns: no object for each step.

A call is divided into pieces of different keys, so that the rows of one key are stepped in their
order. A single step is a call of one row.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from deployments.stateful.model import Output
from deployments.stateful.row import Key, Keyed, id_of, name_of
from deployments.trace_context import CURRENT, Trace

LONGEST_PIECE = 512  # a longer one would keep other requests from their turns for too long


class StepResult(NamedTuple):
    """The outcome of one step. ``step`` counts the steps of the state, this one included."""

    output: Output
    step: int


class Keys(Sequence[Key]):
    """The keys of a call's rows. A caller that steps the same states again and again keeps them."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __getitem__(self, row: Any) -> Any:
        return self._keys[row]

    @cached_property
    def names(self) -> list[bytes]:
        """Their names in the table."""
        return [name_of(*key) for key in self._keys]

    @cached_property
    def most_of_one(self) -> int:
        """How many rows the most frequent key has."""
        return max(Counter(self._keys).values())

    @cached_property
    def pieces(self) -> list[tuple[Sequence[int], list[bytes]]]:
        """Rows of different keys with their names, so that those of one key are in order."""
        names = self.names
        n_earlier: Counter[bytes] = Counter()
        rounds: list[list[int]] = []
        for row, name in enumerate(names):
            number = n_earlier[name]
            n_earlier[name] += 1
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(row)
        pieces: list[tuple[Sequence[int], list[bytes]]] = []
        for each in rounds:
            rest = iter(each)
            while rows := list(islice(rest, LONGEST_PIECE)):
                in_a_row = range(rows[0], rows[-1] + 1)
                numbers = in_a_row if len(in_a_row) == len(rows) else rows
                pieces.append((numbers, [names[row] for row in rows]))
        return pieces


def ids_of(request_ids: Sequence[str | None]) -> NDArray[np.uint64]:
    """Return the digests of idempotency keys, 0 for None."""
    return np.array([0 if each is None else id_of(each) for each in request_ids], np.uint64)


class Inputs(Protocol):
    """The model's inputs of B rows."""

    def join(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> Any:
        """Return the inputs of some rows of several calls, to be stepped together.

        Args:
            parts: the inputs of each call, of this type, and the numbers of its rows.
        """


@dataclass(slots=True)
class Rows:
    """B steps.

    Attributes:
        ids: (B,) digests of the idempotency keys, 0 where there is none; None if no row has one.
        prints: (B,) digests of the inputs, where there are idempotency keys.
        continues: whether a step fails unless its state has made one before.
        trace: that the call belongs to.
    """

    keys: Keys
    inputs: Inputs
    ids: NDArray[np.uint64] | None = None
    prints: NDArray[np.uint32] | None = None
    continues: bool = False
    trace: Trace | None = field(default_factory=CURRENT.get)


Error = TypeVar("Error", bound=Exception)


class Outcomes(NamedTuple, Generic[Error]):
    """The outcomes of B rows, as columns.

    Attributes:
        outputs, steps: of B rows; None in place of the output of a row that has failed.
        errors: by row.
    """

    outputs: list[Any]
    steps: list[int]
    errors: dict[int, Error]

    def row(self, row: int) -> StepResult | Error:
        if row in self.errors:
            return self.errors[row]
        return StepResult(self.outputs[row], self.steps[row])


class RowOutcomes:
    """The outcomes of B rows, as they come."""

    def __init__(self, n_rows: int) -> None:
        self._outcomes: Outcomes[Exception] = Outcomes([None] * n_rows, [0] * n_rows, {})
        self._n_missing = n_rows
        self._complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        """Whether every row has an outcome, or the caller has gone."""
        return not self._n_missing

    def set(self, rows: Sequence[int], outputs: Sequence[Output], steps: Sequence[int]) -> None:
        """Note the results of rows that had no outcome."""
        if not self._n_missing:
            return
        if isinstance(rows, range):
            some = slice(rows.start, rows.stop)
            self._outcomes.outputs[some], self._outcomes.steps[some] = outputs, steps
        else:
            for row, output, step in zip(rows, outputs, steps, strict=True):
                self._outcomes.outputs[row], self._outcomes.steps[row] = output, step
        self._note(len(rows))

    def fail(self, rows: Iterable[int], error: Exception) -> None:
        """Let rows fail that have no outcome."""
        outputs, errors = self._outcomes.outputs, self._outcomes.errors
        failed = [row for row in rows if outputs[row] is None and row not in errors]
        errors.update(dict.fromkeys(failed, error))
        self._note(len(failed))

    def _note(self, n_rows: int) -> None:
        self._n_missing -= n_rows
        if not self._n_missing and not self._complete.done():
            self._complete.set_result(None)

    def cancel(self) -> None:
        """Let no further step be made; the caller has disconnected."""
        error = ConnectionAbortedError("The caller has disconnected")
        self.fail(range(len(self._outcomes.outputs)), error)

    async def all(self) -> Outcomes[Exception]:
        """Return the outcomes of all rows."""
        if self._n_missing:
            await self._complete
        return self._outcomes


class OneStep:
    """A single step, with the methods of :class:`RowPiece`."""

    __slots__ = ("continues", "input", "key", "keyed", "names", "response", "trace")

    def __init__(
        self,
        key: Key,
        input: Any,
        response: asyncio.Future[StepResult],
        request_id: str | None,
        print: int,
        trace: Trace | None,
    ) -> None:
        self.key, self.input, self.response, self.trace = key, input, response, trace
        self.names = [name_of(*key)]
        self.keyed: Keyed | None = None
        self.continues = False
        if request_id is not None:
            self.keyed = Keyed([id_of(request_id)], [print & 0xFFFFFFFF])

    @property
    def keys(self) -> Sequence[Key]:
        return (self.key,)

    def done(self) -> bool:
        return self.response.done()

    def take(self, rows: Sequence[int]) -> OneStep:
        return self

    def set(
        self, rows: Sequence[int] | None, outputs: Sequence[Output], steps: Sequence[int]
    ) -> None:
        if not self.response.done():  # a disconnected client has cancelled it
            self.response.set_result(StepResult(outputs[0], steps[0]))

    def fail(self, rows: Iterable[int] | None, error: Exception) -> None:
        if not self.response.done():
            self.response.set_exception(error)


class RowPiece:
    """Rows of one call, of different keys, that are stepped in one round.

    Args:
        numbers: of the rows in the call.
        names: of the rows in the table.

    Attributes:
        keyed: their idempotency keys; None if no row has one.
    """

    def __init__(
        self, rows: Rows, outcomes: RowOutcomes, numbers: Sequence[int], names: list[bytes]
    ) -> None:
        self.rows, self.outcomes, self.numbers, self.names = rows, outcomes, numbers, names
        self.continues, self.trace = rows.continues, rows.trace
        some: Any = slice(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers
        self.keyed: Keyed | None = None
        if rows.ids is not None and rows.prints is not None:
            self.keyed = Keyed(rows.ids[some], rows.prints[some])

    @property
    def keys(self) -> Sequence[Key]:
        keys = self.rows.keys
        return keys if len(self.numbers) == len(keys) else [keys[row] for row in self.numbers]

    def done(self) -> bool:
        """Return whether no caller waits for it any more."""
        return self.outcomes.done()

    def take(self, rows: Sequence[int]) -> RowPiece:
        """Return some of the rows."""
        numbers, names = [self.numbers[row] for row in rows], [self.names[row] for row in rows]
        return RowPiece(self.rows, self.outcomes, numbers, names)

    def set(
        self, rows: Sequence[int] | None, outputs: Sequence[Output], steps: Sequence[int]
    ) -> None:
        """Answer some rows, None for all."""
        numbers = self.numbers if rows is None else [self.numbers[row] for row in rows]
        self.outcomes.set(numbers, outputs, steps)

    def fail(self, rows: Iterable[int] | None, error: Exception) -> None:
        """Fail some rows, None for all."""
        self.outcomes.fail(
            self.numbers if rows is None else [self.numbers[row] for row in rows], error
        )


Piece = OneStep | RowPiece


def pieces_of(rows: Rows, outcomes: RowOutcomes, numbers: Sequence[int]) -> list[RowPiece]:
    """Return the pieces of some rows of a call, in the order in which they must be stepped."""
    if len(numbers) == len(rows.keys):
        return [RowPiece(rows, outcomes, some, names) for some, names in rows.keys.pieces]
    some_keys = Keys([rows.keys[row] for row in numbers])
    return [
        RowPiece(rows, outcomes, [numbers[row] for row in some], names)
        for some, names in some_keys.pieces
    ]
