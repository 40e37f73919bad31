"""Calls with many rows, whose rounds share steps of the model.

Plain values: nothing here waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from deployments.stateful.protocol import Key
from deployments.stateful.replica.rows import Keys, RowOutcomes, RowPart, Rows

MAX_SHARED = 128  # rows of several calls in one step: with more, a row costs no less


class Calls:
    """The calls that wait for steps, longest waiting first. True if there is one."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._upcoming: list[Keys] = []  # what _sharing last saw and chose
        self._shared: tuple[list[int], Keys] = [], Keys(())

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, rows: Rows, outcomes: RowOutcomes, numbers: Sequence[int], keys: Keys) -> None:
        """Add some rows of a call.

        Args:
            numbers: of the rows to step.
            keys: of these rows, in the namespace of the model.
        """
        self._calls.append(_Call(rows, outcomes, numbers, keys))

    def have(self, key: Key) -> bool:
        return any(key in call.states for call in self._calls)

    def take_all(self) -> Iterator[tuple[RowPart, Keys]]:
        """Take all rows, in an order in which those of one key may be stepped."""
        calls, self._calls = self._calls, []
        for call in calls:
            while not call.done():
                keys = call.keys
                yield call.take(), keys

    def take_round(self) -> tuple[list[RowPart], Keys]:
        """Take the next rows of the calls that have waited longest, all of different keys."""
        self._calls = [call for call in self._calls if not call.done()]
        if not self._calls:
            return [], Keys(())
        chosen, keys = self._sharing()
        return [self._calls[at].take() for at in chosen], keys

    def _sharing(self) -> tuple[list[int], Keys]:
        """Return which calls share a step, as all of their states differ, and the keys of its rows.

        From round to round they mostly stay the same, so their keys are kept.
        """
        upcoming, n_rows = list[Keys](), 0
        for call in self._calls:
            n_rows += len(call.keys)
            if upcoming and n_rows > MAX_SHARED:
                break
            upcoming.append(call.keys)
        if upcoming != self._upcoming:
            self._upcoming = upcoming
            chosen, earlier = list[int](), set[Key]()
            for at, call in enumerate(self._calls[: len(upcoming)]):
                if earlier.isdisjoint(call.states):
                    chosen.append(at)
                earlier |= call.states
            if len(chosen) == 1:
                joined = upcoming[0]
            else:
                joined = Keys(chain.from_iterable(upcoming[at] for at in chosen))
            self._shared = chosen, joined
        return self._shared


class _Call:
    """The rows that are still to be stepped, round by round.

    Args:
        numbers: of the rows to step.
        keys: of these rows, in the namespace of the model.

    Attributes:
        states: the keys, each once.
    """

    def __init__(
        self, rows: Rows, outcomes: RowOutcomes, numbers: Sequence[int], keys: Keys
    ) -> None:
        self.states = keys.distinct
        self._rows, self._outcomes, self._numbers = rows, outcomes, numbers
        self._rounds = keys.rounds()
        self._at = 0

    def done(self) -> bool:
        """Whether no round is left, or the caller has disconnected."""
        return self._at == len(self._rounds) or self._outcomes.done()

    @property
    def keys(self) -> Keys:
        """The keys of the next round."""
        return self._rounds[self._at][1]

    def take(self) -> RowPart:
        """Take the next round."""
        numbers, _ = self._rounds[self._at]
        self._at += 1
        if len(self._numbers) < len(self._rows.keys):
            numbers = [self._numbers[row] for row in numbers]
        return RowPart(self._rows, self._outcomes, numbers)
