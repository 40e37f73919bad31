"""An event loop for many simulated processes: each has a clock, can be stalled, and can die.

Every callback belongs to the process in whose context it was registered. So a stall is a true one:
none of a process' code runs until it goes on, and then all that was due meanwhile runs at once; a
process that dies never runs its next line. Nothing sleeps, no selector is used.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

MOST_CALLBACKS = 1_000_000  # of one schedule; more is a livelock
CLOCK_RESOLUTION_S = 1e-9  # both scales are rounded, and a timer must not fire too early

_PROCESS: ContextVar[Process] = ContextVar("process")


class Process:
    """A process, on a machine with a clock of its own.

    Args:
        rate: seconds of its clock in a true second.
        ahead_s: what its clock shows at the start.
        asleep_s: by how much its lease clock differs, because the machine was suspended.

    Attributes:
        stopped_s: true time for which its clock has stood still so far.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        name: str,
        rate: float = 1.0,
        ahead_s: float = 0.0,
        asleep_s: float = 0.0,
    ) -> None:
        self.name = name
        self.rate = rate
        self.stalled = False
        self.dead = False
        self.stopped_s = 0.0
        self.backlog: list[_Handle] = []
        self._ahead_s = ahead_s
        self._asleep_s = asleep_s
        self._clock_stopped_at: float | None = None
        self._lease_clock_stops = False
        self._loop = loop
        loop.processes.append(self)
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)

    def clock(self) -> float:
        return self._ahead_s + self._loop.now * self.rate

    def lease_clock(self) -> float:
        return self._asleep_s + self.clock()

    def true_time(self, clock: float) -> float:
        return (clock - self._ahead_s) / self.rate

    def stall(self) -> None:
        self.stalled = True

    def suspend(self, lease_clock_stops: bool) -> None:
        """Stall together with the machine, whose clock stops; its lease clock may go on."""
        self.stall()
        self._clock_stopped_at = self._loop.now
        self._lease_clock_stops = lease_clock_stops

    def resume(self, order: random.Random) -> None:
        """Run what is due: messages first or timers first, as real loops may."""
        if self.stalled and not self.dead:
            self.stalled = False
            self._start_clock()
            timers_first = order.random() < 0.5
            self.backlog.sort(key=lambda handle: handle.timed != timers_first)
            self._loop.resume_with(self.backlog)
            self.backlog = []

    def _start_clock(self) -> None:
        if self._clock_stopped_at is None:
            return
        stopped_s = self._loop.now - self._clock_stopped_at
        self._clock_stopped_at = None
        self.stopped_s += stopped_s
        self._ahead_s -= stopped_s * self.rate
        if not self._lease_clock_stops:
            self._asleep_s += stopped_s * self.rate

    def die(self) -> None:
        self.dead = True

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function as a part of this process."""
        return self._loop.run_as(self, function, *args)


class _Handle:
    __slots__ = (
        "_cancelled",
        "args",
        "callback",
        "context",
        "process",
        "stopped_s",
        "timed",
        "when",
    )

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        process: Process,
        when: float = 0.0,
        timed: bool = False,
    ) -> None:
        self.callback, self.args, self.context = callback, args, context
        self.process, self.when, self.timed = process, when, timed
        self.stopped_s = process.stopped_s
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self.args = ()

    def cancelled(self) -> bool:
        return self._cancelled


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs all processes, one callback at a time.

    Attributes:
        now: the true time in seconds; ``time()`` is the clock of the current process.
        environment: the process of clients and faults, whose clock is true.
        defects: errors that no code handled.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.callbacks = 0
        self.defects: list[str] = []
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._n_timers = 0
        self._tasks: list[asyncio.Task[Any]] = []  # keeps those of dead processes from ending
        self._closing = False
        self.processes: list[Process] = []
        self.environment = self.current = Process(self, "environment")

    # What asyncio calls

    def time(self) -> float:
        return self.current.clock()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        context = copy_context() if context is None else context
        handle = _Handle(callback, args, context, context.get(_PROCESS, self.environment))
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        context = copy_context() if context is None else context
        process = context.get(_PROCESS, self.environment)
        return self._at(self.now + delay / process.rate, callback, args, context, process, True)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        context = copy_context() if context is None else context
        process = context.get(_PROCESS, self.environment)
        not_before = process.true_time(when) + CLOCK_RESOLUTION_S
        return self._at(not_before, callback, args, context, process, True)

    def post(
        self, process: Process, delay_s: float, callback: Callable[..., object], *args: Any
    ) -> None:
        """Deliver a message to a process after a true delay."""
        self._at(self.now + delay_s, callback, args, process.context.copy(), process, False)

    def _at(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        process: Process,
        timed: bool,
    ) -> _Handle:
        handle = _Handle(callback, args, context, process, when, timed)
        self._push(handle)
        return handle

    def _postpone(self, handle: _Handle) -> None:
        """Let a timer wait for as long as the clock of its process has stood still."""
        handle.when += handle.process.stopped_s - handle.stopped_s
        handle.stopped_s = handle.process.stopped_s
        self._push(handle)

    def _push(self, handle: _Handle) -> None:
        self._n_timers += 1
        heapq.heappush(self._timers, (handle.when, self._n_timers, handle))

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> asyncio.Task[Any]:
        if context is not None and _PROCESS not in context:
            context.run(_PROCESS.set, self.current)
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name="task", context=context)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closing:
            self.defects.append(f"{context.get('message')}: {context.get('exception')!r}")

    # What the simulation calls

    def run_as(self, process: Process, function: Callable[..., T], *args: Any) -> T:
        before, self.current = self.current, process
        try:
            return process.context.copy().run(function, *args)
        finally:
            self.current = before

    def resume_with(self, backlog: list[_Handle]) -> None:
        self._ready.extend(backlog)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run until this work of the environment is done; everything else stops where it is."""
        asyncio._set_running_loop(self)
        try:
            task = self.environment.run(self.create_task, work)
            while not task.done():
                self._run_one()
            result: T = task.result()
            return result
        finally:
            asyncio._set_running_loop(None)

    def _run_one(self) -> None:
        if self._ready:
            handle = self._ready.popleft()
        else:
            if not self._timers:
                raise RuntimeError("every process waits for an event that will never happen")
            when, _, handle = heapq.heappop(self._timers)
            if when > self.now:
                self.now = when
        if handle._cancelled:
            return
        process = handle.process
        if (process.stalled or process.dead) and not self._closing:
            process.backlog.append(handle)
            return
        if handle.timed and handle.stopped_s < process.stopped_s and not self._closing:
            self._postpone(handle)
            return
        self.callbacks += 1
        if self.callbacks > MOST_CALLBACKS:
            raise RuntimeError("a livelock")
        self.current = process
        try:
            handle.context.run(handle.callback, *handle.args)
        except Exception as error:
            if not self._closing:
                self.defects.append(f"{handle.callback} in {process.name}: {error!r}")
        self.current = self.environment

    def close(self) -> None:
        """Cancel the remaining tasks, before the garbage collector ends their coroutines."""
        self._closing = True
        asyncio._set_running_loop(self)
        try:
            for process in self.processes:
                self._ready.extend(process.backlog)
                process.backlog.clear()
            while tasks := [task for task in self._tasks if not task.done()]:
                for task in tasks:
                    task.cancel()
                while self._ready:
                    self._run_one()
        finally:
            asyncio._set_running_loop(None)
        self._tasks.clear()
        self._timers.clear()
