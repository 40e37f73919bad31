"""Requests that wait for their step: a queue for each hidden state, in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import NamedTuple

from deployments.log import RateLimitedLogger
from deployments.stateful.protocol import Key, OutcomeUnknownError
from deployments.trace_context import Trace


class Decision(NamedTuple):
    """One step's outcome. ``step`` counts the junction's steps since zeros."""

    action: int
    confidence: float
    step: int


@dataclass(slots=True)
class Request:
    """One step that is asked for.

    Attributes:
        obs: no more values than the network has.
        patience_s: for so long it may wait for its state.
        request_id: an idempotency key, the same for every attempt at one step.
        fingerprint: of the observation, where there is a key.
        stepped: the step was made, and its answer may wait for the commit.
        timed: somebody looks whether its patience is at an end.
        impatient: it is; the request waits for its turn, but for no state any more.
        trace: that the request belongs to.
    """

    key: Key
    obs: list[float]
    answer: asyncio.Future[Decision]
    patience_s: float
    request_id: str | None = None
    fingerprint: str = ""
    stepped: bool = False
    timed: bool = False
    impatient: bool = False
    trace: Trace | None = None


class Queues:
    """Requests by key. A key is ready unless its state is being waited for."""

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
            while queue and queue[0].answer.done():  # a long outage must not fill the memory
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

    def ready(self, limit: int) -> list[Key]:
        """Return keys that have waited longest for a step."""
        return [key for key, _ in zip(self._ready, range(limit), strict=False)]

    def pop(self, key: Key) -> Request | None:
        """Take the next request of a ready key, which goes to the end of those that are ready."""
        queue = self._queues[key]
        del self._ready[key]
        request = None
        while queue and request is None:
            first = queue.popleft()
            request = None if first.answer.done() else first
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
        """Hold a key's requests until its state is here, and return them."""
        self._ready.pop(key, None)
        self._parked.add(key)
        return list(self._queues[key])

    def unpark(self, key: Key) -> None:
        """Make a parked key ready, and the next: its state may be wanted elsewhere already."""
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


class HeldAnswers:
    """Looks after answers that wait for a commit, so that none waits for ever."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._loop = asyncio.get_running_loop()
        self._held: deque[tuple[float, asyncio.Future[Decision]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._log = RateLimitedLogger("Commits")

    def add(self, answer: asyncio.Future[Decision]) -> None:
        while self._held and self._held[0][1].done():
            self._held.popleft()
        until = self._loop.time() + self._wait_s
        self._held.append((until, answer))
        if self._timer is None:
            self._timer = self._loop.call_at(until, self._expire)

    def _expire(self) -> None:
        now = self._loop.time()
        while self._held and (self._held[0][1].done() or self._held[0][0] <= now):
            _, answer = self._held.popleft()
            if not answer.done():
                answer.set_exception(OutcomeUnknownError())
                self._log.warning("late", "A commit is not confirmed within %g s", self._wait_s)
        self._timer = self._loop.call_at(self._held[0][0], self._expire) if self._held else None
