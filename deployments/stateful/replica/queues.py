"""Queues of requests: one for each state, in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from deployments.log import RateLimitedLogger
from deployments.stateful.protocol import Key, OutcomeUnknownError, Output, Receipt, made
from deployments.stateful.replica.held_state import HeldState
from deployments.trace_context import Trace


class StepResult(NamedTuple):
    """The outcome of one step. ``step`` counts the steps of the state, this one included."""

    output: Output
    step: int


class StepResults(NamedTuple):
    """The outcomes of B steps, as columns."""

    outputs: Sequence[Output]
    steps: Sequence[int]

    def row(self, row: int) -> StepResult:
        return StepResult(self.outputs[row], self.steps[row])

    def take(self, rows: Sequence[int]) -> StepResults:
        return StepResults([self.outputs[row] for row in rows], [self.steps[row] for row in rows])


class Waiting(Protocol):
    """What waits for the outcome of one step or of several."""

    def done(self) -> bool: ...

    def set_exception(self, error: Exception, /) -> None: ...


class Response(Waiting, Protocol):
    """Where the outcome of a step goes. An asyncio.Future is one; it may be cancelled."""

    def set_result(self, result: StepResult, /) -> None: ...


class OneResponse:
    """A response to a step that was made earlier."""

    def __init__(self, response: Response) -> None:
        self._response = response

    def respond(self, which: Sequence[int] | None, results: StepResults) -> None:
        if not self._response.done():
            self._response.set_result(results.row(0))

    def fail(self, which: Sequence[int] | None, error: Exception) -> None:
        if not self._response.done():
            self._response.set_exception(error)


@dataclass(slots=True)
class Request:
    """One step that a caller asks for.

    Attributes:
        entity: of the key, without the namespace of the model.
        timeout_s: how long it may wait for its state, if less than the options allow.
        request_id: an idempotency key, the same for every attempt at one step.
        fingerprint: a digest of the input, if there is an idempotency key.
        continues: the step fails unless the state has made one before.
        stepped: the step was made; the response may wait for its commit.
        timer_started: a timer ends the wait for the state.
        timed_out: the timer has fired. The request still waits for its turn, but for no state.
        trace: that the request belongs to.
    """

    key: Key
    entity: str
    input: Any
    response: Response
    timeout_s: float
    request_id: str | None = None
    fingerprint: str = ""
    continues: bool = False
    stepped: bool = False
    timer_started: bool = False
    timed_out: bool = False
    trace: Trace | None = None


class RequestBatch:
    """Requests of different states, to be stepped together."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests

    @property
    def keys(self) -> list[Key]:
        return [each.key for each in self._requests]

    @property
    def inputs(self) -> list[Any]:
        return [each.input for each in self._requests]

    @property
    def traces(self) -> list[Trace | None]:
        return [each.trace for each in self._requests]

    def take(self, rows: Sequence[int]) -> RequestBatch:
        return RequestBatch([self._requests[row] for row in rows])

    def request(self, row: int) -> Request:
        return self._requests[row]

    def note(self, states: Iterable[HeldState], results: StepResults) -> None:
        """Note that the steps are made, and the receipts of requests with an idempotency key."""
        for request, state, output, step in zip(self._requests, states, *results, strict=True):
            request.stepped = True
            if request.request_id is not None:
                receipt = Receipt(request.request_id, request.fingerprint, step, output)
                state.receipts.add(receipt)

    def waiting(self) -> list[Response]:
        """Return what is to fail if no commit is confirmed in time."""
        return [each.response for each in self._requests]

    def respond(self, which: Sequence[int] | None, results: StepResults) -> None:
        """Send the results of some requests, or of all."""
        requests = self._requests
        if which is not None:
            requests, results = [requests[row] for row in which], results.take(which)
        for request, result in zip(requests, made(StepResult, *results), strict=True):
            if not request.response.done():  # a disconnected client has cancelled it
                request.response.set_result(result)

    def fail(self, which: Sequence[int] | None, error: Exception) -> None:
        """Fail some requests, or all."""
        for row in range(len(self._requests)) if which is None else which:
            response = self._requests[row].response
            if not response.done():
                response.set_exception(error)


class Queues:
    """Requests by key. A key is ready unless its state is being checked out."""

    def __init__(self) -> None:
        self._queues: dict[Key, deque[Request]] = {}
        self._ready: OrderedDict[Key, None] = OrderedDict()  # longest waiting first
        self._parked: set[Key] = set()

    def add(self, request: Request) -> bool:
        """Queue a request; return whether its key is ready."""
        key = request.key
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
        elif key in self._parked:
            while queue and queue[0].response.done():  # a long outage must not fill the memory
                queue.popleft()
        queue.append(request)
        if key in self._parked:
            return False
        self._ready[key] = None
        return True

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    @property
    def has_any(self) -> bool:
        return bool(self._queues)

    def has(self, key: Key) -> bool:
        return key in self._queues or key in self._parked

    def ready(self, limit: int) -> list[Key]:
        """Return the keys that have waited longest for a step."""
        return [key for key, _ in zip(self._ready, range(limit), strict=False)]

    def pop(self, key: Key) -> Request | None:
        """Take the next request of a ready key, which becomes the last of the ready keys."""
        queue = self._queues[key]
        del self._ready[key]
        request = None
        while queue and request is None:
            first = queue.popleft()
            request = None if first.response.done() else first
        if queue:
            self._ready[key] = None
        else:
            del self._queues[key]
        return request

    def is_ready(self, key: Key) -> bool:
        return key in self._ready

    def is_parked(self, key: Key) -> bool:
        return key in self._parked

    def park(self, key: Key) -> list[Request]:
        """Hold a key's requests until its state is checked out, and return them."""
        self._ready.pop(key, None)
        self._parked.add(key)
        return list(self._queues[key])

    def unpark(self, key: Key) -> None:
        """Make a parked key the first of the ready keys: its state may be recalled already."""
        self._parked.discard(key)
        if self._queues.get(key):
            self._ready[key] = None
            self._ready.move_to_end(key, last=False)
        else:
            self._queues.pop(key, None)

    def drop(self, key: Key) -> list[Request]:
        """Return the requests of a parked key, which wait no longer."""
        self._parked.discard(key)
        return list(self._queues.pop(key, ()))


class CommitDeadlines:
    """Fails responses that have waited too long for a commit."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, Waiting]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._log = RateLimitedLogger("Commits")

    def add(self, response: Waiting) -> None:
        while self._waiting and self._waiting[0][1].done():
            self._waiting.popleft()
        until = self._loop.time() + self._timeout_s
        self._waiting.append((until, response))
        if self._timer is None:
            self._timer = self._loop.call_at(until, self._expire)

    def _expire(self) -> None:
        now = self._loop.time()
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] <= now):
            _, response = self._waiting.popleft()
            if not response.done():
                response.set_exception(OutcomeUnknownError())
                message = "A commit was not confirmed within %g s"
                self._log.warning("late", message, self._timeout_s)
        waiting = self._waiting
        self._timer = self._loop.call_at(waiting[0][0], self._expire) if waiting else None
