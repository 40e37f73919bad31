"""Time as a test sets it: a clock, and an event loop in which minutes pass in milliseconds."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SLOWEST_REAL_WAIT_S = 5.0  # for other threads


@dataclass
class Clock:
    """Shows the time that the test sets, in seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class _JumpingSelector(selectors.SelectSelector):
    """Moves the clock to the next timer, where a loop would sleep until then."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:  # no timer: only another thread can continue
            ready = super().select(_SLOWEST_REAL_WAIT_S)
            if not ready:
                raise RuntimeError("every task waits for an event that will never happen")
            return ready
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run an async test in a loop with virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(test(*args, **kwargs))

    return run
