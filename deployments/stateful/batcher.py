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
from types import CoroutineType
from typing import Any, NamedTuple, Protocol

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
from deployments.stateful.page import boot_clock
from deployments.stateful.row import (
    ABSENT,
    Array,
    Key,
    Keyed,
    RowForm,
    aside,
    key_of,
    variant_of,
)
from deployments.stateful.shards import shard_of
from deployments.stateful.table import Read, Written
from deployments.trace_context import CURRENT, traces_of
from deployments.tracing import process as tracing

MAX_ROWS = 512
"""Rows of a turn, more or less: with more, a row costs no less."""
LONGEST_TURN_S = 0.004
AT_CAPACITY_S = 30.0
LONGEST_OUTAGE_S = 1.5
"""How long requests wait for a table that is away; longer than a new home takes on one machine."""
PAUSE_S = 0.05
_VARIANT = slice(16, 20)  # of a version

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
                self._loop.call_later(PAUSE_S, self._run)
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
        pieces: whose rows these are, one after the other; all of one type.
        places: of the rows in the turn.
        outputs, steps: by row, once they are known; a row that has failed has an error.
        plain: whether every row has made its step.
    """

    __slots__ = ("batch", "outputs", "pieces", "places", "plain", "steps")

    def __init__(self, pieces: Sequence[Piece], places: Sequence[int]) -> None:
        self.pieces, self.places = pieces, places
        self.plain = True
        self.outputs: Sequence[Any] = ()
        self.steps: Sequence[int] = ()
        self.batch: SteppedBatch | None = None

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


class _Turn:
    """One turn: the rows of some pieces, of which each is read and written once.

    Attributes:
        number: of the transaction that has all that the responses tell.
    """

    def __init__(self, batcher: Batcher, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.number = 0
        self._batcher = batcher
        self._names, self._rounds = _rounds_of(pieces)
        self._changed: set[int] = set()
        self._written = Written(0)

    def run(self) -> _Work:
        """Yield calls of the table's methods, each with its arguments; take what they return."""
        model = self._batcher.model()
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
            self._written = yield "write", self._names, read, which, left
            self.number = self._written.number or read.number

    def _read_and_step(
        self, model: Model
    ) -> Generator[tuple[Any, ...], Any, tuple[Read, dict[int, tuple[bytes, bytes]]]]:
        """Return the rows after their steps, and those that other variants of the model leave."""
        batcher, names, expected = self._batcher, self._names, self._batcher.variant_bytes
        read: Read = yield "read", names
        rows, left = read.rows, dict[int, tuple[bytes, bytes]]()
        other = [at for at, version in enumerate(rows.versions) if version[_VARIANT] != expected]
        if ABSENT in rows.versions:
            for at, version in enumerate(rows.versions):
                if version == ABSENT:
                    rows.begin(at, batcher.variant, 0, model.initial_state(key_of(names[at])))
            other = [at for at in other if rows.versions[at] != ABSENT]
        if other:
            left = yield from self._switch(rows, other, model)
        if tracing.is_on():
            traces = traces_of(piece.trace for piece in self.pieces)
            with tracing.covering(batcher.step_span, traces, attributes={"rows": len(names)}):
                self._step_rounds(rows, model)
        else:
            self._step_rounds(rows, model)
        return read, left

    def _switch(
        self, rows: Any, changed: list[int], model: Model
    ) -> Generator[tuple[Any, ...], Any, dict[int, tuple[bytes, bytes]]]:
        """Keep states of another variant aside, and go on with those of this one."""
        form, variant, left = self._batcher.form, self._batcher.variant, {}
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
            if self._batcher.on_step is not None:
                seconds = time.perf_counter() - started
                every: Sequence[Key] = [key for piece in round.pieces for key in piece.keys]
                keys = [every[row] for row in todo] if known else every
                round.batch = SteppedBatch(keys, steps, before, after, outputs, seconds)
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
        is_whole = not self._written.raced and not self._written.refused
        for round in self._rounds:
            if not (round.plain and is_whole):
                self._respond_singly(round)
            elif len(round.pieces) == 1:
                round.pieces[0].set(None, round.outputs, round.steps)
            else:
                for piece, first, after in round.parts():
                    piece.set(None, round.outputs[first:after], round.steps[first:after])
        for round in self._rounds if is_whole else ():
            if round.batch is not None:
                self._report(round.batch)

    def _report(self, batch: SteppedBatch) -> None:
        on_step = self._batcher.on_step
        if on_step is not None:
            try:
                on_step(batch)
            except Exception as error:  # a defect; the steps are made
                self._batcher.log.warning("on_step", "A batch was not reported: %r", error)

    def _respond_singly(self, round: _Round) -> None:
        batcher, (_, raced, refused, why) = self._batcher, self._written
        for piece, first, after in round.parts():
            for row in range(first, after):
                answer, place = round.outputs[row], round.places[row]
                if place in raced:
                    continue
                if place in refused:
                    assert why is not None, "rows are refused for a reason"
                    batcher.refuse(piece, [row - first], why)
                elif not isinstance(answer, Exception):
                    piece.set([row - first], [answer], [round.steps[row]])
                elif batcher.fallback is None or isinstance(answer, KeyReusedError | NotBegunError):
                    piece.fail([row - first], answer)
                else:
                    batcher.counts.passed_on += 1
                    batcher.fallback.take_over(piece.take([row - first]))
