"""Steps that one caller asks for together, as columns: no object for each step.

Rows whose states are here, with no earlier request, are stepped in rounds of different states. The
calls for different states make rounds together. Any other row becomes a request in the queues, and
its outcome takes its place among the others later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Protocol

from deployments.stateful.protocol import Key, Output
from deployments.stateful.replica.held_state import HeldState
from deployments.stateful.replica.queues import Request, StepResult, StepResults
from deployments.stateful.replica.receipts import note
from deployments.trace_context import CURRENT, Trace

RowOutcome = StepResult | Exception

LONGEST_ROUND = 512  # a longer one would keep other requests from their turns for too long


class Keys(Sequence[Key]):
    """The keys of a call's rows. A caller that steps the same states again and again keeps them."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = tuple(keys)
        self._in_namespaces: dict[str, Keys] = {}

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

    @cached_property
    def distinct(self) -> frozenset[Key]:
        return frozenset(self._keys)

    def in_namespace(self, namespace: str) -> Keys:
        """Return the keys of the same entities in a namespace; "" is the default one."""
        if not namespace:
            return self
        keys = self._in_namespaces.get(namespace)
        if keys is None:
            keys = self._in_namespaces[namespace] = Keys(
                each.in_namespace(namespace) for each in self
            )
        return keys

    def take(self, rows: Sequence[int]) -> Keys:
        """Return those of some rows."""
        return self if len(rows) == len(self) else Keys([self._keys[row] for row in rows])

    def rounds(self) -> Sequence[tuple[Sequence[int], Keys]]:
        """Divide the rows into rounds of different keys, so that those of one key are in order.

        Rounds of the same keys have the same object.
        """
        return self._rounds or [(range(len(self)), self)]

    @cached_property
    def _rounds(self) -> list[tuple[Sequence[int], Keys]]:
        """The rounds; empty if there is one, as a reference to itself would keep its states."""
        if len(self.distinct) == len(self) <= LONGEST_ROUND:
            return []
        n_earlier: Counter[Key] = Counter()
        rounds: list[list[int]] = []
        for row, key in enumerate(self._keys):
            number = n_earlier[key]
            n_earlier[key] += 1
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(row)
        same: dict[tuple[Key, ...], Keys] = {}
        divided: list[tuple[Sequence[int], Keys]] = []
        for each in rounds:
            rest = iter(each)
            while rows := list(islice(rest, LONGEST_ROUND)):
                keys = tuple(self._keys[row] for row in rows)
                in_a_row = range(rows[0], rows[-1] + 1)
                numbers = in_a_row if len(in_a_row) == len(rows) else rows
                divided.append((numbers, same.get(keys) or same.setdefault(keys, Keys(keys))))
        return divided


class Inputs(Protocol):
    """The model's inputs of B rows."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Any: ...

    def join(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> Any:
        """Return the inputs of some rows of several calls, to be stepped together.

        Args:
            parts: the inputs of each call, of this type, and the numbers of its rows.
        """


@dataclass(slots=True)
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

    def named(self, rows: Sequence[int]) -> tuple[Sequence[str | None], Sequence[str]]:
        """Return the idempotency keys of some rows, and the digests of their inputs."""
        ids, fingerprints = self.request_ids, self.fingerprints
        if ids is None:
            return [None] * len(rows), [""] * len(rows)
        if isinstance(rows, range):
            some = slice(rows.start, rows.stop)
            return ids[some], fingerprints[some]
        return [ids[row] for row in rows], [fingerprints[row] for row in rows]

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


class RowPart(NamedTuple):
    """Rows of one call, of different states.

    Attributes:
        numbers: of the rows.
    """

    rows: Rows
    outcomes: RowOutcomes
    numbers: Sequence[int]


class RowBatch:
    """Rows of different states, to be stepped together.

    Args:
        parts: of each call.
        keys: of all rows, in the namespace of the model.
    """

    def __init__(self, parts: Sequence[RowPart], keys: Sequence[Key]) -> None:
        self.keys = keys
        self._parts = parts

    @property
    def inputs(self) -> Any:
        first = self._parts[0].rows.inputs
        return first.join([(rows.inputs, numbers) for rows, _, numbers in self._parts])

    @property
    def traces(self) -> list[Trace | None]:
        return [part.rows.trace for part in self._parts]

    @property
    def continues(self) -> bool:
        """Whether some step fails unless its state has made one before."""
        return any(part.rows.continues for part in self._parts)

    @cached_property
    def named(self) -> tuple[list[str | None], list[str]] | None:
        """The idempotency keys, and the digests of their inputs; None if no row has a key."""
        if all(part.rows.request_ids is None for part in self._parts):
            return None
        ids: list[str | None] = []
        fingerprints: list[str] = []
        for part in self._parts:
            some, digests = part.rows.named(part.numbers)
            ids += some
            fingerprints += digests
        return ids, fingerprints

    def take(self, rows: Sequence[int]) -> RowBatch:
        parts = [
            RowPart(part.rows, part.outcomes, [part.numbers[row - at] for row in some])
            for part, at, some in self._divide(rows)
        ]
        return RowBatch(parts, [self.keys[row] for row in rows])

    def request(self, row: int) -> Request:
        ((part, at, _),) = self._divide([row])
        return part.rows.request(part.numbers[row - at], self.keys[row], part.outcomes)

    def note(self, states: Iterable[HeldState], results: StepResults) -> None:
        """Note the receipts of the rows that have an idempotency key."""
        if self.named is not None:
            caches = [each.receipts for each in states]
            note(caches, *self.named, results.steps, results.outputs)

    def waiting(self) -> list[RowOutcomes]:
        """Return what is to fail if no commit is confirmed in time."""
        return [part.outcomes for part in self._parts]

    def respond(self, which: Sequence[int] | None, results: StepResults) -> None:
        """Send the results of some rows, or of all, unless their caller has disconnected."""
        for part, at, rows in self._divide(which):
            if not part.outcomes.done():
                if which is None:
                    some = slice(at, at + len(rows))
                    made = StepResults(results.outputs[some], results.steps[some])
                    part.outcomes.set(part.numbers, made)
                else:
                    numbers = [part.numbers[row - at] for row in rows]
                    part.outcomes.set(numbers, results.take(rows))

    def fail(self, which: Sequence[int] | None, error: Exception) -> None:
        """Fail some rows, or all."""
        for part, at, rows in self._divide(which):
            part.outcomes.fail([part.numbers[row - at] for row in rows], error)

    def _divide(self, which: Sequence[int] | None) -> Iterator[tuple[RowPart, int, Sequence[int]]]:
        """Yield each part with its place, and those of its rows that are meant: all if None."""
        at = 0
        for part in self._parts:
            end = at + len(part.numbers)
            if which is None:
                yield part, at, range(at, end)
            elif rows := [row for row in which if at <= row < end]:
                yield part, at, rows
            at = end
