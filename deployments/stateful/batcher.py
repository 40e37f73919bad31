"""Steps waiting requests: a turn reads their rows, steps the model, and writes in one transaction.

The first request of an event-loop turn schedules a turn of the batcher for the end of it; requests
that arrive meanwhile join it. There is no wait for more: at these sizes a step costs less than any
wait. In a turn the steps of one state are made in rounds, and become one write of its row.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from types import CoroutineType
from typing import Any, NamedTuple, Protocol

import numpy as np

from deployments.log import RateLimitedLogger
from deployments.stateful.calls import (
    OneStep,
    Piece,
    RowOutcomes,
    RowPiece,
    Rows,
    StepResult,
    pieces_of,
)
from deployments.stateful.errors import (
    KeyReusedError,
    NotBegunError,
    StateError,
    TooManyStatesError,
    UnavailableError,
)
from deployments.stateful.model import Model, Output
from deployments.stateful.row import (
    ABSENT,
    Array,
    Key,
    RowForm,
    add_receipts,
    aside,
    find_receipts,
    key_of,
    receipt,
    variant_of,
    without_receipts,
)
from deployments.stateful.shards import shard_of
from deployments.stateful.table import Read, Written, boot_clock
from deployments.trace_context import CURRENT, traces_of
from deployments.tracing import process as tracing

MAX_ROWS = 512
"""Rows of a turn, more or less: with more, a row costs no less."""
LONGEST_TURN_S = 0.004
AT_CAPACITY_S = 30.0
LONGEST_OUTAGE_S = 1.5
"""How long requests wait for a table that is away; longer than a new home takes on one machine."""
_PAUSE_S = 0.05
_VARIANT = slice(16, 20)  # of a version
_ONE = np.uint64(1)

logger = logging.getLogger("ray.serve")


class Shard(Protocol):
    """A part of the states.

    Attributes:
        table: a :class:`.table.Table`, or one whose methods are coroutines. It may be replaced by
            another one between two turns.
        connected: whether it can be reached.
    """

    @property
    def table(self) -> Any: ...

    @property
    def connected(self) -> bool: ...

    async def copied(self, table: Any, number: int) -> None:
        """Return when a transaction of a table is in the store.

        Raises:
            OutcomeUnknownError: that was not confirmed in time.
        """

    async def close(self) -> None: ...


@dataclass
class BatcherCounts:
    """Counts since the start of the replica.

    Attributes:
        at_capacity: requests for a new state that were refused at the limit on states.
        passed_on: steps that the model refused, and that were left to the fallback.
        raced: rows that another replica changed meanwhile, and that were stepped again.
    """

    at_capacity: int = 0
    passed_on: int = 0
    raced: int = 0


class SteppedBatch(NamedTuple):
    """A batch of B steps, for an observer.

    Attributes:
        keys: B of them.
        steps: B numbers: each counts the steps of its state, this one included.
        before, after: (B, \\*shape) states, which an observer must not write into. A row of
            ``after`` whose output is an error was not kept.
        outputs: as the model returned them.
        seconds: duration of the step.
    """

    keys: Sequence[Key]
    steps: Sequence[int]
    before: Array
    after: Array
    outputs: Sequence[Output | StateError]
    seconds: float


class Batcher:
    """Steps the states of one model, or of one variant of it.

    Args:
        shards: the parts of the states.
        form: of the rows.
        durable: whether a response waits until its step is in the store.
        model: returns the model, which must be there when a step is requested.
        namespace: of the states, where several variants of a model have separate states.
        step_span: name of the span that covers a turn in traces.

    Attributes:
        fallback: makes the steps that this model refuses. Without one they fail.
        on_step: is called with each batch that was kept as a whole, after its responses; an error
            of it is logged.
        counts: may be replaced by others, which then count on.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        form: RowForm,
        durable: bool,
        model: Callable[[], Model | None],
        namespace: str = "",
        step_span: str = "step",
    ) -> None:
        self.fallback: Batcher | None = None
        self.on_step: Callable[[SteppedBatch], None] | None = None
        self.counts = BatcherCounts()
        self.form = form
        self.durable = durable
        self.model = model
        self.variant = variant_of(namespace)
        self.variant_bytes = self.variant.to_bytes(4, "little")
        self.step_span = step_span
        self.log = RateLimitedLogger("Hidden states")
        self._loop = asyncio.get_running_loop()
        self._lanes = [_Lane(self, shard) for shard in shards]
        self._at_capacity_until = -math.inf

    def submit(
        self, key: Key, input: Any, request_id: str | None = None, print: int = 0
    ) -> asyncio.Future[StepResult]:
        """Queue one step. Cancelling the future before its step prevents the step.

        Args:
            input: of the model.
            request_id: an idempotency key, the same for every attempt at one step.
            print: a digest of the input, if there is an idempotency key.

        Returns:
            A future of the result; fails with a :class:`StateError`.
        """
        response: asyncio.Future[StepResult] = self._loop.create_future()
        step = OneStep(key, input, response, request_id, print, CURRENT.get())
        self._lane_of(key.run).add(step)
        return response

    def submit_rows(self, rows: Rows, numbers: Sequence[int], outcomes: RowOutcomes) -> None:
        """Queue one step of each row; those of one state are stepped in their order.

        Args:
            numbers: of the rows to step.
        """
        if len(self._lanes) == 1:
            self._lanes[0].add(*pieces_of(rows, outcomes, numbers))
            return
        of_lanes: list[list[int]] = [[] for _ in self._lanes]
        for row in numbers:
            of_lanes[shard_of(rows.keys[row].run, len(of_lanes))].append(row)
        for lane, some in zip(self._lanes, of_lanes, strict=True):
            if some:
                lane.add(*pieces_of(rows, outcomes, some))

    def take_over(self, piece: Piece) -> None:
        """Queue rows that another batcher has not answered."""
        self._lane_of(piece.keys[0].run).add(piece)

    def _lane_of(self, run: str) -> _Lane:
        lanes = self._lanes
        return lanes[0] if len(lanes) == 1 else lanes[shard_of(run, len(lanes))]

    def refuse(self, piece: Piece, rows: Sequence[int], error: TooManyStatesError) -> None:
        """Fail rows for which there is no room."""
        piece.fail(rows, error)
        self.counts.at_capacity += len(rows)
        self._at_capacity_until = self._loop.time() + min(error.retry_after_s, AT_CAPACITY_S)

    @property
    def at_capacity(self) -> bool:
        """Whether new states were refused lately because of the limit on states."""
        return self._loop.time() < self._at_capacity_until

    @property
    def idle(self) -> bool:
        return not any(lane.busy for lane in self._lanes)

    async def close(self) -> None:
        """Return when nothing waits any more, after a deadline of a second."""
        until = self._loop.time() + 1.0
        while not self.idle and self._loop.time() < until:
            await asyncio.sleep(0.01)


class _Lane:
    """What waits for the table of one shard."""

    def __init__(self, batcher: Batcher, shard: Shard) -> None:
        self._batcher = batcher
        self._shard = shard
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Piece] = deque()
        self._scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._unavailable_since = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._tasks)

    def add(self, *pieces: Piece) -> None:
        self._waiting.extend(pieces)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Make turns until nothing waits, and yield the event loop after a while."""
        self._scheduled = False
        until = time.perf_counter() + LONGEST_TURN_S
        while self._waiting:
            turn = _Turn(self._batcher, self._take())
            if turn.pieces and not self._make(turn):
                return  # the table is on another machine; what arrives meanwhile waits
            if self._waiting and time.perf_counter() > until:
                self._schedule()
                return

    def _take(self) -> list[Piece]:
        pieces, n_rows = list[Piece](), 0
        while self._waiting and (not pieces or n_rows + len(self._waiting[0].names) <= MAX_ROWS):
            piece = self._waiting.popleft()
            if not piece.done():
                pieces.append(piece)
                n_rows += len(piece.names)
        return pieces

    def _make(self, turn: _Turn) -> bool:
        """Make a turn; return False if it goes on in a task."""
        table, work, answer = self._shard.table, turn.run(), None
        try:
            while True:
                method, *arguments = work.send(answer)
                answer = getattr(table, method)(*arguments)
                if type(answer) is CoroutineType:
                    self._scheduled = True
                    self._spawn(self._go_on(turn, table, work, answer))
                    return False
        except StopIteration:
            self._settle(turn, table)
        except Exception as error:
            return self._fail(turn, error)
        return True

    async def _go_on(self, turn: _Turn, table: Any, work: _Work, awaited: Any) -> None:
        try:
            answer = await awaited
            while True:
                method, *arguments = work.send(answer)
                answer = await getattr(table, method)(*arguments)
        except StopIteration:
            self._settle(turn, table)
        except Exception as error:
            if not self._fail(turn, error):
                return
        self._scheduled = False
        if self._waiting:
            self._schedule()

    def _fail(self, turn: _Turn, error: Exception) -> bool:
        """Fail the requests of a turn, or let them wait a while for their table.

        Returns:
            Whether other requests may have their turns now.
        """
        if isinstance(error, UnavailableError):
            now = self._loop.time()
            self._unavailable_since = self._unavailable_since or now
            if now - self._unavailable_since < LONGEST_OUTAGE_S:
                self._waiting.extendleft(reversed(turn.pieces))
                self._scheduled = True
                self._loop.call_later(_PAUSE_S, self._run)
                return False
        elif not isinstance(error, StateError):
            # a defect; no request may hang
            logger.error("A turn of the hidden states failed", exc_info=error)
        for piece in turn.pieces:
            piece.fail(None, error)
        return True

    def _settle(self, turn: _Turn, table: Any) -> None:
        self._unavailable_since = 0.0
        again = turn.again()
        if again:
            self._batcher.counts.raced += sum(len(piece.names) for piece in again)
            self._waiting.extendleft(reversed(again))
        if self._batcher.durable:
            self._spawn(self._respond_when_copied(turn, table))
        else:
            turn.respond()

    async def _respond_when_copied(self, turn: _Turn, table: Any) -> None:
        try:
            await self._shard.copied(table, turn.number)
        except Exception as error:
            turn.fail(error)
        else:
            turn.respond()

    def _spawn(self, work: Any) -> None:
        # In the context of no request: one whose client disconnects would cancel those of others.
        task = self._loop.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_Work = Generator[tuple[Any, ...], Any, None]


class _Round:
    """Rows of different states that are stepped together.

    Attributes:
        pieces: whose rows these are, one after the other.
        at: the places of the rows in the turn; a slice if these are all.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.places: list[int] = []
        self.at: Any = None
        self.stepped: list[int] = []
        self.answers: list[tuple[int, Output | Exception, int]] = []
        self.outputs: Any = None
        self.steps: list[int] = []
        self.batch: SteppedBatch | None = None
        self.keyed: tuple[Any, Any] = None, None

    def parts(self) -> Iterator[tuple[Piece, int, int]]:
        """Yield each piece with the first row of it in the round, and the one after its last."""
        at = 0
        for piece in self.pieces:
            yield piece, at, at + len(piece.names)
            at += len(piece.names)


class _Turn:
    """One turn: the rows of some pieces, of which each is read and written once.

    Attributes:
        number: of the transaction that has all that the responses tell.
    """

    def __init__(self, batcher: Batcher, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.number = 0
        self._batcher = batcher
        self._names: list[bytes] = []
        self._rounds: list[_Round] = []
        self._written = Written(0)
        self._lost: frozenset[int] = frozenset()
        if len(pieces) == 1:
            self._names = pieces[0].names
            round = _Round()
            round.pieces, round.at = [pieces[0]], slice(None)
            round.places = list(range(len(self._names)))
            self._rounds = [round]
        else:
            self._divide()

    def _divide(self) -> None:
        """Put each piece into the first round after those that have states of it."""
        places: dict[bytes, int] = {}
        next_round: dict[bytes, int] = {}
        rounds: dict[tuple[int, bool], _Round] = {}
        for piece in self.pieces:
            names, is_one = piece.names, type(piece) is OneStep
            if is_one:
                number = next_round.get(names[0], 0)
            else:
                number = max(next_round.get(name, 0) for name in names)
            round = rounds.get((number, is_one))
            if round is None:
                round = rounds[number, is_one] = _Round()
            round.pieces.append(piece)
            for name in names:
                next_round[name] = number + 1
                round.places.append(places.setdefault(name, len(places)))
        self._names = list(places)
        self._rounds = [round for _, round in sorted(rounds.items(), key=lambda item: item[0])]
        for round in self._rounds:
            round.at = np.array(round.places, np.intp)

    def run(self) -> _Work:
        """Yield calls of the table's methods, each with its arguments; take what they return."""
        batcher, names, expected = self._batcher, self._names, self._batcher.variant_bytes
        model = batcher.model()
        if model is None:
            raise RuntimeError("A step was requested while no model is loaded")
        read: Read = yield "read", names
        rows = read.rows
        left: dict[int, tuple[bytes, bytes]] = {}
        other = [n for n, version in enumerate(read.versions) if version[_VARIANT] != expected]
        if ABSENT in read.versions:
            for place, version in enumerate(read.versions):
                if version == ABSENT:
                    rows["variant"][place] = batcher.variant
                    rows["state"][place] = model.initial_state(key_of(names[place]))
            other = [place for place in other if read.versions[place] != ABSENT]
        if other:
            left = yield from self._switch(read, other, model)
        if tracing.is_on():
            traces = traces_of(piece.trace for piece in self.pieces)
            with tracing.covering(batcher.step_span, traces, attributes={"rows": len(names)}):
                self._step_rounds(rows, model)
        else:
            one, *others = self.pieces
            if (
                others
                or left
                or not isinstance(one, OneStep)
                or not self._step_one(one, read, model)
            ):
                self._step_rounds(rows, model)
        dirty = self._dirty()
        self.number = read.number
        if dirty is None or dirty:
            self._written = yield "write", names, read, dirty, left
            self.number = self._written.number or read.number
        if self._written.raced or self._written.refused:
            self._lost = frozenset((*self._written.raced, *self._written.refused))

    def _step_one(self, one: OneStep, read: Read, model: Model) -> bool:
        """Step a single row, in a third of the time of a batch; return False if it must not be."""
        form, (round,) = self._batcher.form, self._rounds
        if one.ids is not None and form.has_receipt(read.raw, one.ids[0]):
            return False
        started = time.perf_counter()
        before = form.state_of(read.raw)
        outputs, after = model.step([one.input], before)
        if isinstance(outputs[0], StateError):
            round.answers = [(0, outputs[0], 0)]
            steps = [0]
        else:
            steps = [form.put_state(read.raw, after, int(boot_clock()))]
            if one.ids is not None and one.prints is not None:
                kept = model.keep(outputs, (0,)).tobytes()
                form.put_receipt(read.raw, one.ids[0], one.prints[0], kept)
            round.stepped, round.steps, round.outputs = [0], steps, outputs
        if self._batcher.on_step is not None:
            seconds = time.perf_counter() - started
            round.batch = SteppedBatch(one.keys, steps, before, after, outputs, seconds)
        return True

    def _switch(
        self, read: Read, changed: list[int], model: Model
    ) -> Generator[tuple[Any, ...], Any, dict[int, tuple[bytes, bytes]]]:
        """Keep states of another variant aside, and go on with those of this one."""
        form, variant, rows = self._batcher.form, self._batcher.variant, read.rows
        wanted = {place: aside(self._names[place], variant) for place in changed}
        kept: dict[bytes, bytes] = yield "get", list(wanted.values())
        left: dict[int, tuple[bytes, bytes]] = {}
        for place, name in wanted.items():
            row = without_receipts(rows[place : place + 1])
            left[place] = aside(self._names[place], int(row["variant"][0])), row.tobytes()
            if name in kept:
                found = form.rows(kept[name])
                rows["step"][place], rows["state"][place] = found["step"][0], found["state"][0]
            else:
                rows["step"][place] = 0
                rows["state"][place] = model.initial_state(key_of(self._names[place]))
            rows["variant"][place] = variant
        return left

    def _step_rounds(self, rows: Array, model: Model) -> None:
        for round in self._rounds:
            self._step(round, rows, model)

    def _step(self, round: _Round, rows: Array, model: Model) -> None:
        """Answer what needs no step, and step the other rows in the copies that were read."""
        todo = self._todo(round, rows, model)
        if todo is not None and not todo:
            return
        at, started = round.at, time.perf_counter()
        pieces = round.pieces
        if todo is not None:
            at = np.array(round.places, np.intp)[todo]
        inputs = self._inputs(round, todo)
        states = rows["state"]
        before = states.copy() if isinstance(at, slice) else states[at]
        outputs, after = model.step(inputs, before)
        refused = [n for n, output in enumerate(outputs) if isinstance(output, StateError)]
        stepped: Sequence[int] = range(len(outputs)) if todo is None else todo
        kept: Sequence[int] = range(len(outputs))
        if refused:
            round.answers += [(stepped[n], outputs[n], 0) for n in refused]
            kept = [n for n in kept if n not in set(refused)]
            stepped = [stepped[n] for n in kept]
            at = np.array(round.places, np.intp)[stepped]
        states[at] = after[kept] if refused else after
        numbers = rows["step"]
        numbers[at] += _ONE
        steps = numbers[at]
        rows["used"][at] = int(boot_clock())
        ids, prints = round.keyed
        if ids is not None:
            if len(stepped) == len(round.places) and ids.all():
                answers = model.keep(outputs, kept)
                add_receipts(rows, round.places, ids, prints, answers)
            elif keyed := [n for n, row in enumerate(stepped) if ids[row]]:
                some = [stepped[n] for n in keyed]
                places = [round.places[row] for row in some]
                answers = model.keep(outputs, [kept[n] for n in keyed])
                add_receipts(rows, places, ids[some], prints[some], answers)
        round.stepped = stepped if isinstance(stepped, list) else list(stepped)
        round.steps = steps.tolist()
        round.outputs = outputs if not refused else [outputs[n] for n in kept]
        if self._batcher.on_step is not None:
            every = range(len(round.places)) if todo is None else todo
            all_keys: Sequence[Key] = [key for piece in pieces for key in piece.keys]
            keys = all_keys if todo is None else [all_keys[row] for row in every]
            counted = round.steps
            if refused:
                counted = rows["step"][np.array(round.places, np.intp)[list(every)]].tolist()
            seconds = time.perf_counter() - started
            round.batch = SteppedBatch(keys, counted, before, after, outputs, seconds)

    def _todo(self, round: _Round, rows: Array, model: Model) -> list[int] | None:
        """Return the rows of a round that need a step; None for all. Answer the others."""
        answers: dict[int, tuple[Output | Exception, int]] = {}
        ids, prints = round.keyed = _keyed(round.pieces)
        if ids is not None:
            found = find_receipts(rows, round.at, ids)
            if found is not None:
                for row in np.flatnonzero(found >= 0).tolist():
                    known, step, kept = receipt(rows[round.places[row]], int(found[row]))
                    if known != int(prints[row]):
                        answers[row] = KeyReusedError(), 0
                    else:
                        answers[row] = model.answer(kept), step
        if any(piece.continues for piece in round.pieces):
            steps = rows["step"]
            for piece, first, after in round.parts():
                if piece.continues:
                    for row in range(first, after):
                        if row not in answers and not steps[round.places[row]]:
                            answers[row] = NotBegunError(), 0
        if not answers:
            return None
        round.answers = [(row, *answer) for row, answer in answers.items()]
        return [row for row in range(len(round.places)) if row not in answers]

    @staticmethod
    def _inputs(round: _Round, todo: list[int] | None) -> Any:
        first = round.pieces[0]
        if isinstance(first, OneStep):
            every = [piece.input for piece in round.pieces]  # type: ignore[attr-defined]
            return every if todo is None else [every[row] for row in todo]
        parts = []
        for piece, start, after in round.parts():
            assert isinstance(piece, RowPiece), "a round has single steps or rows of calls"
            numbers: Sequence[int] = piece.numbers
            if todo is not None:
                numbers = [numbers[row - start] for row in todo if start <= row < after]
            if len(numbers):
                parts.append((piece.rows.inputs, numbers))
        return parts[0][0].join(parts)

    def _dirty(self) -> list[int] | None:
        """Return the places of the rows that have changed; None for all."""
        places = {
            place
            for round in self._rounds
            for place in (
                round.places
                if len(round.stepped) == len(round.places)
                else [round.places[row] for row in round.stepped]
            )
        }
        return None if len(places) == len(self._names) else sorted(places)

    def again(self) -> list[Piece]:
        """Return what has to be stepped again, because another process changed its states."""
        return [piece.take(rows) for piece, rows in self._divided(raced=True)]

    def fail(self, error: Exception) -> None:
        """Fail every row, but those that are stepped again."""
        for piece, rows in self._divided(raced=False):
            piece.fail(rows, error)

    def _divided(self, raced: bool) -> Iterator[tuple[Piece, list[int]]]:
        """Yield pieces with those of their rows that have lost a race, or with the others."""
        lost = self._written.raced
        for round in self._rounds if lost or not raced else ():
            for piece, first, after in round.parts():
                places = round.places[first:after]
                rows = [row for row, place in enumerate(places) if (place in lost) == raced]
                if rows:
                    yield piece, rows

    def respond(self) -> None:
        """Answer every row, but those that are stepped again."""
        for round in self._rounds:
            if not round.answers and not self._lost and len(round.pieces) == 1:
                round.pieces[0].set(None, round.outputs, round.steps)
            elif not round.answers and not self._lost:
                for piece, first, after in round.parts():
                    piece.set(None, round.outputs[first:after], round.steps[first:after])
            else:
                self._respond_singly(round)
        on_step = self._batcher.on_step
        if on_step is not None and not self._lost:
            for round in self._rounds:
                if round.batch is not None:
                    try:
                        on_step(round.batch)
                    except Exception as error:  # a defect; the steps are made
                        message = "A batch was not reported: %r"
                        self._batcher.log.warning("on_step", message, error)

    def _respond_singly(self, round: _Round) -> None:
        batcher, refused = self._batcher, set(self._written.refused)
        raced = self._written.raced
        results: dict[int, tuple[Any, int]] = {
            row: (output, step)
            for row, output, step in zip(
                round.stepped, round.outputs or (), round.steps, strict=True
            )
        }
        results |= {row: (answer, step) for row, answer, step in round.answers}
        for piece, first, after in round.parts():
            for row in range(first, after):
                answer, step = results[row]
                if round.places[row] in raced:
                    continue
                if round.places[row] in refused:
                    assert self._written.why is not None
                    batcher.refuse(piece, [row - first], self._written.why)
                elif not isinstance(answer, Exception):
                    piece.set([row - first], [answer], [step])
                elif batcher.fallback is None or isinstance(answer, KeyReusedError | NotBegunError):
                    piece.fail([row - first], answer)
                else:
                    batcher.counts.passed_on += 1
                    batcher.fallback.take_over(piece.take([row - first]))


def _keyed(pieces: Sequence[Piece]) -> tuple[Any, Any]:
    """Return the idempotency keys of rows and the digests of their inputs; None if no row has one.

    Returns:
        (B,) each.
    """
    if all(piece.ids is None for piece in pieces):
        return None, None
    ids: list[Any] = []
    prints: list[Any] = []
    for piece in pieces:
        if piece.ids is None or piece.prints is None:
            nothing = np.zeros(len(piece.names), np.uint32)
            ids.append(nothing)
            prints.append(nothing)
        else:
            ids.append(piece.ids)
            prints.append(piece.prints)
    if isinstance(pieces[0], OneStep):
        flat = chain.from_iterable
        return np.fromiter(flat(ids), np.uint64), np.fromiter(flat(prints), np.uint32)
    return np.concatenate(ids, dtype=np.uint64), np.concatenate(prints, dtype=np.uint32)
