"""Batches waiting requests into steps of a model, one step per state at a time, in FIFO order.

The first request of an event-loop turn schedules a batch for the end of that turn; requests that
arrive in the same turn join it. There is no wait for a fuller batch: at these sizes a step costs
less than any wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from operator import contains
from typing import Any, NamedTuple, Protocol

from deployments.log import RateLimitedLogger
from deployments.stateful.protocol import (
    CheckoutTimeoutError,
    Key,
    NotBegunError,
    Output,
    StateError,
    TooManyStatesError,
)
from deployments.stateful.replica.calls import Calls
from deployments.stateful.replica.engine import Model, StatefulEngine
from deployments.stateful.replica.held_state import HeldBatch, HeldState
from deployments.stateful.replica.queues import (
    CommitDeadlines,
    OneResponse,
    Queues,
    Request,
    RequestBatch,
    Response,
    StepResult,
    StepResults,
    Waiting,
)
from deployments.stateful.replica.rows import (
    RowBatch,
    RowOutcomes,
    RowPart,
    RowResponse,
    Rows,
)
from deployments.stateful.replica.slab import Array
from deployments.trace_context import CURRENT, Trace, traces_of
from deployments.tracing import process as tracing

MAX_BATCH = 256
LONGEST_TURN_S = 0.004
AT_CAPACITY_S = 30.0


@dataclass
class BatcherCounts:
    """Counts since the start of the replica.

    Attributes:
        at_capacity: requests for a new state that were refused at the limit on states.
        passed_on: steps that the model refused, and that were left to the fallback.
    """

    at_capacity: int = 0
    passed_on: int = 0


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


class Batch(Protocol):
    """B steps of different states: requests from the queues, or rows of one call."""

    @property
    def keys(self) -> Sequence[Key]: ...

    @property
    def inputs(self) -> Any: ...

    @property
    def traces(self) -> Sequence[Trace | None]: ...

    def take(self, rows: Sequence[int]) -> Batch: ...

    def request(self, row: int) -> Request: ...

    def note(self, states: Iterable[HeldState], results: StepResults) -> None: ...

    def waiting(self) -> Sequence[Waiting]: ...

    def respond(self, which: Sequence[int] | None, results: StepResults) -> None: ...

    def fail(self, which: Sequence[int] | None, error: Exception) -> None: ...


class Batcher:
    """Steps the states of one model.

    Args:
        engine: has the states.
        model: returns the model, which must be there when a step is requested.
        namespace: of the states, where several models have separate states.
        step_span: name of the span that covers a step in traces.

    Attributes:
        fallback: makes the steps that this model refuses. Without one they fail.
        on_step: is called with each batch, after its responses; an error of it is logged.
        counts: may be replaced by others, which then count on.
    """

    def __init__(
        self,
        engine: StatefulEngine,
        model: Callable[[], Model | None],
        namespace: str = "",
        step_span: str = "step",
    ) -> None:
        self.fallback: Batcher | None = None
        self.on_step: Callable[[SteppedBatch], None] | None = None
        self.counts = BatcherCounts()
        self._engine = engine
        self._model = model
        self._namespace = namespace
        self._step_span = step_span
        self._loop = asyncio.get_running_loop()
        self._queues = Queues()
        self._commit_deadlines = CommitDeadlines(engine.options.commit_timeout_s)
        self._at_capacity_until = -math.inf
        self._log = RateLimitedLogger("Hidden states")
        self._scheduled = False
        self._calls = Calls()
        self._acquiring: set[asyncio.Task[None]] = set()

    def submit(
        self,
        key: Key,
        input: Any,
        timeout_s: float = math.inf,
        request_id: str | None = None,
        fingerprint: str = "",
    ) -> asyncio.Future[StepResult]:
        """Queue one step. Cancelling the future before its step prevents the step.

        Args:
            key: in the default namespace.
            input: of the model.
            timeout_s: how long it may wait for its state, if less than the options allow.
            request_id: an idempotency key, the same for every attempt at one step.
            fingerprint: a digest of the input, if there is an idempotency key.

        Returns:
            A future of the result; fails with a :class:`StateError`.
        """
        response: asyncio.Future[StepResult] = self._loop.create_future()
        request = Request(
            key.in_namespace(self._namespace),
            key.entity,
            input,
            response,
            timeout_s,
            request_id,
            fingerprint,
            trace=CURRENT.get(),
        )
        self.enqueue(request)
        return response

    def submit_rows(self, rows: Rows, numbers: Sequence[int], outcomes: RowOutcomes) -> None:
        """Queue one step of each row, at the end of this turn at the earliest.

        Rows of one state are stepped in their order, after requests that are queued already.

        Args:
            numbers: of the rows to step.
        """
        keys = rows.keys.take(numbers).in_namespace(self._namespace)
        self._calls.add(rows, outcomes, numbers, keys)
        self._schedule()

    def enqueue(self, request: Request) -> None:
        """Queue one step behind those of the same state."""
        if self._calls.have(request.key):
            self._queue_calls()
        self._queue(request)

    def _queue_calls(self) -> None:
        """Queue the rows of the calls that wait, so that later requests do not overtake them."""
        for (rows, outcomes, numbers), keys in self._calls.take_all():
            for number, key in zip(numbers, keys, strict=True):
                self._queue(rows.request(number, key, outcomes))

    def _queue(self, request: Request) -> None:
        if self._queues.add(request):
            self._schedule()
        else:
            self._start_timer(request)

    # Steps

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Step what is ready, and yield the event loop after a while."""
        self._scheduled = False
        until = time.perf_counter() + LONGEST_TURN_S
        while self._queues.has_ready or self._calls:
            if self._calls:
                self._step_round()
            requests, held = self._next_batch()
            if requests:
                self._step_or_fail(RequestBatch(requests), self._engine.batch_of(held))
            if time.perf_counter() > until and (self._queues.has_ready or self._calls):
                self._schedule()
                return

    def _step_round(self) -> None:
        """Step the next rows of the calls that have waited longest."""
        parts, keys = self._calls.take_round()
        if not parts:
            return
        batch = RowBatch(parts, keys)
        try:
            held = self._engine.select(keys)
            if held is None or self._may_differ(batch, held):
                parts, held = self._admit(parts, keys)
                batch = RowBatch(parts, held.keys)
        except Exception as error:  # a defect; no request may hang because of it
            batch.fail(None, error)
        else:
            if parts:
                self._step_or_fail(batch, held)

    def _may_differ(self, batch: RowBatch, held: HeldBatch) -> bool:
        """Return whether some row may have to wait, or needs no step."""
        if self._queues.has_any and any(map(self._queues.has, held.by_key)):
            return True
        if batch.continues and not held.steps.all():
            return True
        named = batch.named
        return named is not None and any(map(contains, held.receipts, named[0]))

    def _admit(
        self, parts: Sequence[RowPart], keys: Sequence[Key]
    ) -> tuple[list[RowPart], HeldBatch]:
        """Return the rows to step now, with their states; queue or answer the others."""
        states = iter(zip(keys, self._engine.all_owned(keys), strict=True))
        stepping: list[HeldState] = []
        admitted: list[RowPart] = []
        for rows, outcomes, numbers in parts:
            now: list[int] = []
            for number in numbers:
                key, held = next(states)
                if held is None or self._queues.has(key):
                    self._queue(rows.request(number, key, outcomes))
                elif self._needs_step(
                    held, *rows.request_id(number), rows.continues, RowResponse(outcomes, number)
                ):
                    stepping.append(held)
                    now.append(number)
            if now:
                admitted.append(RowPart(rows, outcomes, now))
        return admitted, self._engine.batch_of(stepping)

    def _next_batch(self) -> tuple[list[Request], list[HeldState]]:
        """Take the next request of each ready key; park those whose state is not owned."""
        requests: list[Request] = []
        states: list[HeldState] = []
        ready = self._queues.ready(MAX_BATCH)
        for key, held in zip(ready, self._engine.all_owned(ready), strict=True):
            if held is None:
                self._park(key)
            elif (request := self._next_request(key, held)) is not None:
                requests.append(request)
                states.append(held)
        return requests, states

    def _next_request(self, key: Key, held: HeldState) -> Request | None:
        """Return the next request that needs a step, after answering those that need none."""
        while self._queues.is_ready(key):
            request = self._queues.pop(key)
            if request is None or self._needs_step(
                held, request.request_id, request.fingerprint, request.continues, request.response
            ):
                return request
            request.stepped = True
        return None

    def _needs_step(
        self,
        held: HeldState,
        request_id: str | None,
        fingerprint: str,
        continues: bool,
        response: Response,
    ) -> bool:
        """Return True, or answer what has a receipt or is refused."""
        try:
            receipt = None
            if request_id is not None:
                receipt = held.receipts.find(request_id, fingerprint)
            if receipt is None:
                if continues and not held.step:
                    raise NotBegunError
                return True
        except StateError as error:
            _fail(response, error)
            return False
        answer = StepResults([receipt.output], [receipt.step])
        if receipt.step > held.committed and self._engine.responses_wait():
            self._engine.let_wait(self._engine.batch_of([held]), OneResponse(response), answer)
            self._commit_deadlines.add(response)
        else:
            response.set_result(answer.row(0))
        return False

    def _step_or_fail(self, batch: Batch, held: HeldBatch) -> None:
        try:
            with self._covering(batch):
                self._step(batch, held)
        except Exception as error:  # a defect; no request may hang because of it
            batch.fail(None, error)

    def _step(self, batch: Batch, held: HeldBatch) -> None:
        model = self._model()
        if model is None:
            raise RuntimeError("A step was requested while no model is loaded")
        started = time.perf_counter()
        before = held.gather()
        outputs, after = model.step(batch.inputs, before)
        keys, steps = batch.keys, held.next_steps
        self._settle(batch, held, outputs, after, steps)
        if self.on_step is not None:
            seconds = time.perf_counter() - started
            try:
                self.on_step(SteppedBatch(keys, steps, before, after, outputs, seconds))
            except Exception as error:  # a defect; the steps are made
                self._log.warning("on_step", "A batch was not reported: %r", error)

    def _settle(
        self,
        batch: Batch,
        held: HeldBatch,
        outputs: Sequence[Output | StateError],
        after: Array,
        steps: Sequence[int],
    ) -> None:
        waits = self._engine.responses_wait()  # invariant 9
        refused = [row for row, output in enumerate(outputs) if isinstance(output, StateError)]
        if refused:
            self._refuse_steps(batch, outputs, refused)
            kept = [row for row, output in enumerate(outputs) if not isinstance(output, StateError)]
            if not kept:
                return
            batch, held = batch.take(kept), held.part(kept)
            outputs, after = [outputs[row] for row in kept], after[kept]
            steps = [steps[row] for row in kept]
        results = StepResults(outputs, steps)  # type: ignore[arg-type]  # no output is refused
        self._engine.advance(held, after)
        batch.note(held.by_key.values(), results)
        if waits:
            self._engine.let_wait(held, batch, results)
            for waiting in batch.waiting():
                self._commit_deadlines.add(waiting)
        else:
            batch.respond(None, results)

    def _refuse_steps(
        self, batch: Batch, outputs: Sequence[Output | StateError], refused: list[int]
    ) -> None:
        """Leave the steps that the model refuses to the fallback, if there is one."""
        for row in refused:
            request, error = batch.request(row), outputs[row]
            if self.fallback is None:
                assert isinstance(error, StateError)
                batch.fail([row], error)
            else:
                self.counts.passed_on += 1
                self.fallback.take_over(request)

    def take_over(self, request: Request) -> None:
        """Queue a request that another batcher has not answered."""
        request.key = Key(request.key.run, request.entity).in_namespace(self._namespace)
        request.timer_started = False  # the timer of the other batcher knows its own keys only
        self.enqueue(request)

    # Checkouts

    def _park(self, key: Key) -> None:
        """Hold a key's requests until its state is checked out, or until each times out."""
        parked = self._queues.park(key)
        for request in parked:
            self._start_timer(request)
        # In the context of no request: Ray cancels the calls of a request whose client disconnects,
        # and other requests wait for this state as well.
        traces = traces_of(each.trace for each in parked) if tracing.is_on() else []
        acquiring = self._acquire(key, traces)
        task = self._loop.create_task(acquiring, context=contextvars.Context())
        self._acquiring.add(task)
        task.add_done_callback(self._acquiring.discard)

    def _start_timer(self, request: Request) -> None:
        if request.timed_out:
            self._fail_checkout(request)
        elif not request.timer_started:
            request.timer_started = True
            timeout_s = min(request.timeout_s, self._engine.options.checkout_timeout_s)
            self._loop.call_later(timeout_s, self._time_out, request)

    def _time_out(self, request: Request) -> None:
        # A step that was made waits for its commit, which has its own deadline.
        request.timed_out = True
        if not request.stepped and self._queues.is_parked(request.key):
            self._fail_checkout(request)

    def _fail_checkout(self, request: Request) -> None:
        if not request.response.done():
            error = CheckoutTimeoutError()
            request.response.set_exception(error)
            self._log.warning("checkout", "%s", error, **request.key._asdict())

    async def _acquire(self, key: Key, traces: list[Trace]) -> None:
        try:
            with tracing.covering("wait for the hidden state", traces):
                await self._engine.leases_of(key).acquire(key)
        except asyncio.CancelledError:  # or the key would stay parked
            self._refuse(key, CheckoutTimeoutError())
            raise
        except Exception as error:  # a StateError, or a defect
            self._refuse(key, error)
            return
        self._queues.unpark(key)
        self._run()  # at once: a recall may follow the grant

    def _refuse(self, key: Key, error: Exception) -> None:
        refused = self._queues.drop(key)
        for request in refused:
            _fail(request.response, error)
        if isinstance(error, TooManyStatesError):
            self.counts.at_capacity += len(refused)
            self._at_capacity_until = self._loop.time() + min(error.retry_after_s, AT_CAPACITY_S)

    @property
    def at_capacity(self) -> bool:
        """Whether new states were refused lately because of the limit on states."""
        return self._loop.time() < self._at_capacity_until

    @property
    def idle(self) -> bool:
        return not (self._queues.has_any or self._calls)

    async def close(self) -> None:
        for task in list(self._acquiring):
            task.cancel()

    # Traces

    def _covering(self, batch: Batch) -> AbstractContextManager[Any]:
        traces = traces_of(batch.traces) if tracing.is_on() else []
        return self._span(batch, traces) if traces else tracing.NOTHING

    @contextmanager
    def _span(self, batch: Batch, traces: list[Trace]) -> Iterator[None]:
        """Cover the step of a batch, and add its commits to the traces."""
        with tracing.covering(self._step_span, traces, attributes={"rows": len(batch.keys)}):
            yield
            for leases in dict.fromkeys(map(self._engine.leases_of, batch.keys)):
                leases.trace_commit(tracing.current())


def _fail(response: Response, error: Exception) -> None:
    if not response.done():  # a disconnected client has cancelled it
        response.set_exception(error)
