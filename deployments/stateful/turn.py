"""One turn: reads the rows of some requests, steps the model, and writes in one transaction.

The steps of one state are made in rounds, and become one write of its row. A turn does no I/O of
its own: it yields calls of the table's methods, so that a table of this machine is called without
a task, and one on another machine is awaited.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deployments.stateful.calls import OneStep, Piece, RowPiece
from deployments.stateful.errors import KeyReusedError, NotBegunError, StateError
from deployments.stateful.model import Model, Output
from deployments.stateful.page import boot_clock
from deployments.stateful.row import ABSENT, Array, Key, Keyed, RowForm, aside, key_of
from deployments.stateful.table import Read, Written
from deployments.trace_context import traces_of
from deployments.tracing import process as tracing

_VARIANT = slice(16, 20)  # of a version


class SteppedBatch(NamedTuple):
    """A batch of B steps that were written, for an observer.

    Attributes:
        keys: B of them.
        steps: B numbers: each counts the steps of its state, this one included.
        before, after: (B, \\*shape) states, which an observer must not write into. A row of
            ``after`` whose output is an error was not kept.
        outputs: as the model returned them.
        model: that made the steps.
        seconds: duration of the step.
    """

    keys: Sequence[Key]
    steps: Sequence[int]
    before: Array
    after: Array
    outputs: Sequence[Output | StateError]
    model: Model
    seconds: float

    def some(self, rows: Sequence[int]) -> SteppedBatch:
        """Return some of the steps."""
        return SteppedBatch(
            [self.keys[row] for row in rows],
            [self.steps[row] for row in rows],
            self.before[rows],
            self.after[rows],
            self.model.some(self.outputs, rows),
            self.model,
            self.seconds,
        )


Work = Generator[tuple[Any, ...], Any, None]


@dataclass(slots=True)
class _Round:
    """Rows of different states that are stepped together.

    Attributes:
        pieces: whose rows these are, one after the other; all of one type.
        places: of the rows in the turn.
        outputs, steps: by row, once they are known; a row that has failed has an error.
        plain: whether every row has made its step.
        todo, stepped: rows that needed a step, and their places in the turn.
        batch: what was stepped, without its keys.
    """

    pieces: Sequence[Piece]
    places: Sequence[int]
    plain: bool = True
    outputs: Sequence[Any] = ()
    steps: Sequence[int] = ()
    batch: SteppedBatch | None = None
    todo: Sequence[int] = ()
    stepped: Sequence[int] = ()

    def parts(self) -> Iterator[tuple[Piece, int, int]]:
        """Yield each piece with the first row of it in the round, and the one after its last."""
        at = 0
        for piece in self.pieces:
            yield piece, at, at + len(piece.names)
            at += len(piece.names)

    def inputs(self, todo: Sequence[int]) -> Any:
        """Return the inputs of some rows."""
        if isinstance(self.pieces[0], OneStep):
            return [self.pieces[row].input for row in todo]  # type: ignore[union-attr]
        is_all, parts = len(todo) == len(self.places), []
        for piece, start, after in self.parts():
            assert isinstance(piece, RowPiece), "a round has single steps or rows of calls"
            numbers: Sequence[int] = piece.numbers
            if not is_all:
                numbers = [numbers[row - start] for row in todo if start <= row < after]
            if len(numbers):
                parts.append((piece.rows.inputs, numbers))
        return parts[0][0].join(parts)

    def keyed(self) -> Keyed | None:
        """Return the idempotency keys of the rows; None if no row has one."""
        if len(self.pieces) == 1:
            return self.pieces[0].keyed
        if all(piece.keyed is None for piece in self.pieces):
            return None
        every = Keyed([], [])
        for piece in self.pieces:
            none = [0] * len(piece.names)
            ids, prints = piece.keyed or (none, none)
            every.ids.extend(ids)
            every.prints.extend(prints)
        return every


def _some(keyed: Keyed | None, rows: Sequence[int]) -> Keyed | None:
    return keyed and Keyed(*([each[row] for row in rows] for each in keyed))


def _rounds_of(pieces: Sequence[Piece]) -> tuple[list[bytes], list[_Round]]:
    """Put each piece into the first round after those that have states of it.

    Returns:
        The names of all rows, and the rounds in their order.
    """
    names = [name for piece in pieces for name in piece.names]
    if len(set(names)) == len(names) and len({type(piece) for piece in pieces}) == 1:
        return names, [_Round(pieces, range(len(names)))]
    places: dict[bytes, int] = {}
    next_round: dict[bytes, int] = {}
    rounds: dict[tuple[int, bool], tuple[list[Piece], list[int]]] = {}
    for piece in pieces:
        number = max(next_round.get(name, 0) for name in piece.names)
        next_round |= dict.fromkeys(piece.names, number + 1)
        members, at = rounds.setdefault((number, isinstance(piece, OneStep)), ([], []))
        members.append(piece)
        at += [places.setdefault(name, len(places)) for name in piece.names]
    return list(places), [_Round(*rounds[which]) for which in sorted(rounds)]


class Turn:
    """One turn: the rows of some pieces, of which each is read and written once.

    Args:
        form: of the rows.
        variant: of the model.
        step_span: name of the span that covers the steps in traces.

    Attributes:
        number: of the transaction that has all that the responses tell.
        written: what became of the rows, once they are written.
    """

    def __init__(
        self, pieces: Sequence[Piece], form: RowForm, variant: int, step_span: str
    ) -> None:
        self.pieces = pieces
        self.number = 0
        self.written = Written(0)
        self._form, self._variant, self._step_span = form, variant, step_span
        self._names, self._rounds = _rounds_of(pieces)
        self._changed: set[int] = set()

    def run(self, model: Model | None) -> Work:
        """Yield calls of the table's methods, each with its arguments; take what they return."""
        if model is None:
            raise RuntimeError("A step was requested while no model is loaded")
        read, left = yield from self._read_and_step(model)
        if not read.number and len(self._changed) < len(self._names):
            # They were not read now, and only what is written is compared.
            yield "forget", self._names
            self._names, self._rounds = _rounds_of(self.pieces)
            self._changed.clear()
            read, left = yield from self._read_and_step(model)
        self.number = read.number
        if self._changed:
            is_whole = len(self._changed) == len(self._names)
            which = None if is_whole else sorted(self._changed)
            self.written = yield "write", self._names, read, which, left
            self.number = self.written.number or read.number

    def _read_and_step(
        self, model: Model
    ) -> Generator[tuple[Any, ...], Any, tuple[Read, dict[int, tuple[bytes, bytes]]]]:
        """Return the rows after their steps, and those that other variants of the model leave."""
        names, expected = self._names, self._variant.to_bytes(4, "little")
        read: Read = yield "read", names
        rows, left = read.rows, dict[int, tuple[bytes, bytes]]()
        other = [at for at, version in enumerate(rows.versions) if version[_VARIANT] != expected]
        if ABSENT in rows.versions:
            for at, version in enumerate(rows.versions):
                if version == ABSENT:
                    rows.begin(at, self._variant, 0, model.initial_state(key_of(names[at])))
            other = [at for at in other if rows.versions[at] != ABSENT]
        if other:
            left = yield from self._switch(rows, other, model)
        if tracing.is_on():
            traces = traces_of(piece.trace for piece in self.pieces)
            with tracing.covering(self._step_span, traces, attributes={"rows": len(names)}):
                self._step_rounds(rows, model)
        else:
            self._step_rounds(rows, model)
        return read, left

    def _switch(
        self, rows: Any, changed: list[int], model: Model
    ) -> Generator[tuple[Any, ...], Any, dict[int, tuple[bytes, bytes]]]:
        """Keep states of another variant aside, and go on with those of this one."""
        form, variant, left = self._form, self._variant, {}
        wanted = {at: aside(self._names[at], variant) for at in changed}
        kept: dict[bytes, bytes] = yield "get", list(wanted.values())
        for at, name in wanted.items():
            before = int.from_bytes(rows.versions[at][_VARIANT], "little")
            row = form.without_receipts(bytes(rows.raws[at]))
            left[at] = aside(self._names[at], before), row
            if name in kept:
                (found,) = form.rows(kept[name])
                rows.begin(at, variant, int(found["step"]), found["state"])
            else:
                rows.begin(at, variant, 0, model.initial_state(key_of(self._names[at])))
        return left

    def _step_rounds(self, rows: Any, model: Model) -> None:
        for round in self._rounds:
            self._step(round, rows, model)

    def _step(self, round: _Round, rows: Any, model: Model) -> None:
        """Answer what needs no step, and step the other rows in the copies that were read."""
        keyed, at = round.keyed(), round.places
        known = self._known(round, keyed, rows, model)
        todo: Sequence[int] = range(len(at))
        if known:
            round.plain = False
            todo = [row for row in todo if row not in known]
            at = [round.places[row] for row in todo]
            keyed = _some(keyed, todo)
        outputs: Sequence[Any] = ()
        steps: Sequence[int] = ()
        if todo:
            started = time.perf_counter()
            before = rows.states(at)
            outputs, after = model.step(round.inputs(todo), before)
            steps = self._keep(round, rows, at, keyed, outputs, after, model)
            seconds = time.perf_counter() - started
            round.todo, round.stepped = todo, at
            round.batch = SteppedBatch((), steps, before, after, outputs, model, seconds)
        if known:
            made = zip(todo, zip(outputs, steps, strict=True), strict=True)
            results = {**known, **dict(made)}
            outputs, steps = zip(*(results[row] for row in sorted(results)), strict=True)
        round.outputs, round.steps = outputs, steps

    def _keep(
        self,
        round: _Round,
        rows: Any,
        at: Sequence[int],
        keyed: Keyed | None,
        outputs: Sequence[Output | StateError],
        after: Array,
        model: Model,
    ) -> list[int]:
        """Keep what the model has stepped and not refused; return the numbers of the steps."""
        refused = {row for row, output in enumerate(outputs) if isinstance(output, StateError)}
        made: Sequence[int] = range(len(at))
        own, states = at, after
        if refused:
            round.plain = False
            made = [row for row in made if row not in refused]
            own, states, keyed = [at[row] for row in made], after[made], _some(keyed, made)
        kept = None if keyed is None else model.keep(outputs, made)
        steps: list[int] = rows.advance(own, states, int(boot_clock()), keyed, kept)
        self._changed.update(own)
        return rows.steps(at) if refused else steps

    @staticmethod
    def _known(
        round: _Round, keyed: Keyed | None, rows: Any, model: Model
    ) -> dict[int, tuple[Output | Exception, int]]:
        """Return the answers that need no step, by row, with the numbers of their steps."""
        known: dict[int, tuple[Output | Exception, int]] = {}
        if keyed is not None:
            for row, receipt in rows.receipts(round.places, keyed.ids).items():
                if receipt.print != keyed.prints[row]:
                    known[row] = KeyReusedError(), 0
                else:
                    known[row] = model.answer(receipt.output), receipt.step
        if any(piece.continues for piece in round.pieces):
            steps = rows.steps(round.places)
            for piece, first, after in round.parts():
                if piece.continues:
                    for row in range(first, after):
                        if row not in known and not steps[row]:
                            known[row] = NotBegunError(), 0
        return known

    def again(self) -> list[Piece]:
        """Return what has to be stepped again, because another process changed its states."""
        raced = self.written.raced
        parts = self._divided(raced, among=True) if raced else ()
        return [piece.take(rows) for piece, rows in parts]

    def fail(self, error: Exception) -> None:
        """Fail every row, but those that are stepped again."""
        for piece, rows in self._divided(self.written.raced, among=False):
            piece.fail(rows, error)

    def _divided(self, some: Collection[int], among: bool) -> Iterator[tuple[Piece, list[int]]]:
        """Yield pieces with those of their rows that are among some places, or are not."""
        for round in self._rounds:
            for piece, first, after in round.parts():
                places = round.places[first:after]
                rows = [row for row, place in enumerate(places) if (place in some) == among]
                if rows:
                    yield piece, rows

    def respond(self) -> None:
        """Answer every row, but those that are stepped again or have no room."""
        is_whole = not (self.written.raced or self.written.refused)
        for round in self._rounds:
            if not (round.plain and is_whole):
                self._respond_singly(round)
            elif len(round.pieces) == 1:
                round.pieces[0].set(None, round.outputs, round.steps)
            else:
                for piece, first, after in round.parts():
                    piece.set(None, round.outputs[first:after], round.steps[first:after])

    def no_room(self) -> Iterator[Piece]:
        """Yield the rows that have no room, for the reason of :attr:`written`."""
        if self.written.refused:
            for piece, rows in self._divided(self.written.refused, among=True):
                yield piece.take(rows)

    def batches(self) -> Iterator[SteppedBatch]:
        """Yield the steps that were written."""
        lost = {*self.written.raced, *self.written.refused}
        for round in self._rounds:
            if round.batch is None:
                continue
            every: Sequence[Key] = [key for piece in round.pieces for key in piece.keys]
            is_all = len(round.todo) == len(every)
            batch = round.batch._replace(keys=every if is_all else [every[r] for r in round.todo])
            if lost:
                rows = [row for row, place in enumerate(round.stepped) if place not in lost]
                batch = batch.some(rows)
            if batch.keys:
                yield batch

    def _respond_singly(self, round: _Round) -> None:
        _, raced, refused, _ = self.written
        for piece, first, after in round.parts():
            for row in range(first, after):
                answer, place = round.outputs[row], round.places[row]
                if place in raced or place in refused:
                    continue
                if isinstance(answer, Exception):
                    piece.fail([row - first], answer)
                else:
                    piece.set([row - first], [answer], [round.steps[row]])
