"""Queues steps by shard, and makes turns of those that wait.

The first request of an event-loop turn schedules a turn of the batcher for the end of it; requests
that arrive meanwhile join it. There is no wait for more: at these sizes a step costs less than any
wait. :mod:`.turn` has what a turn does.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, Protocol

from deployments.stateful.calls import OneStep, Piece, RowOutcomes, Rows, StepResult, pieces_of
from deployments.stateful.errors import StateError, UnavailableError
from deployments.stateful.model import Model
from deployments.stateful.row import Key, RowForm, variant_of
from deployments.stateful.shards import shard_of
from deployments.stateful.turn import SteppedBatch, Turn, Work
from deployments.trace_context import CURRENT

MAX_ROWS = 512
"""Rows of a turn, more or less: with more, a row costs no less."""
LONGEST_TURN_S = 0.004
AT_CAPACITY_S = 30.0
LONGEST_OUTAGE_S = 1.5
"""How long requests wait for a table that is away; longer than a new home takes on one machine."""
PAUSE_S = 0.05

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
        raced: rows that another replica changed meanwhile, and that were stepped again.
    """

    at_capacity: int = 0
    raced: int = 0


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
        on_step: is called with each batch, after its responses; an error of it is logged.
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
        self.on_step: Callable[[SteppedBatch], None] | None = None
        self.counts = BatcherCounts()
        self.form = form
        self.durable = durable
        self.model = model
        self.variant = variant_of(namespace)
        self.step_span = step_span
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
        self._lanes[shard_of(key.run, len(self._lanes))].add(step)
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

    def respond(self, turn: Turn) -> None:
        """Answer every row of a turn, but those that are stepped again."""
        for piece in turn.no_room():
            why = turn.written.why
            assert why is not None, "rows are refused for a reason"
            piece.fail(None, why)
            self.counts.at_capacity += len(piece.names)
            self._at_capacity_until = self._loop.time() + min(why.retry_after_s, AT_CAPACITY_S)
        turn.respond()
        if self.on_step is not None:
            for batch in turn.batches():
                try:
                    self.on_step(batch)
                except Exception as error:  # a defect; the steps are made
                    logger.warning("A batch was not reported: %r", error)

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
        self._scheduled, batcher = False, self._batcher
        until = time.perf_counter() + LONGEST_TURN_S
        while self._waiting:
            turn = Turn(self._take(), batcher.form, batcher.variant, batcher.step_span)
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

    def _make(self, turn: Turn) -> bool:
        """Make a turn; return False if it goes on in a task."""
        table, work, answer = self._shard.table, turn.run(self._batcher.model()), None
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

    async def _go_on(self, turn: Turn, table: Any, work: Work, awaited: Any) -> None:
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

    def _fail(self, turn: Turn, error: Exception) -> bool:
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

    def _settle(self, turn: Turn, table: Any) -> None:
        self._unavailable_since = 0.0
        again = turn.again()
        if again:
            self._batcher.counts.raced += sum(len(piece.names) for piece in again)
            self._waiting.extendleft(reversed(again))
        if self._batcher.durable:
            self._spawn(self._respond_when_copied(turn, table))
        else:
            self._batcher.respond(turn)

    async def _respond_when_copied(self, turn: Turn, table: Any) -> None:
        try:
            await self._shard.copied(table, turn.number)
        except Exception as error:
            turn.fail(error)
        else:
            self._batcher.respond(turn)

    def _spawn(self, work: Any) -> None:
        # In the context of no request: one whose client disconnects would cancel those of others.
        task = self._loop.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
