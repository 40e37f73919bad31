"""A circuit breaker: after several failures in a row, calls fail at once until a probe succeeds.

M. Nygard, "Release It!", 2nd edition, chapter 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from deployments.gateway.errors import InferenceUnavailableError


class State(IntEnum):
    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class CircuitBreaker:
    """Guards calls of the inference service.

    Every InferenceUnavailableError is a failure but that of too many states: those of other runs
    are still stepped. Other errors are answers.

    Args:
        failures: in a row, that open the breaker.
        pause_s: from opening to the first probe, and between two.
        on_change: called with the new state.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        failures: int,
        pause_s: float,
        on_change: Callable[[State], None] = lambda state: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_failures = failures
        self._pause_s = pause_s
        self._on_change = on_change
        self._clock = clock
        self._failures = 0
        self._probed_at: float | None = None  # or opened; None while it is closed

    @property
    def state(self) -> State:
        if self._probed_at is None:
            return State.CLOSED
        is_pause = self._clock() - self._probed_at < self._pause_s
        return State.OPEN if is_pause else State.HALF_OPEN

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Guard a call; its exceptions pass through.

        Raises:
            InferenceUnavailableError: the breaker is open, and the call must not be made.
        """
        state = self.state
        if state is State.OPEN:
            raise InferenceUnavailableError("breaker_open")
        if state is State.HALF_OPEN:
            self._probed_at = self._clock()
        try:
            yield
        except InferenceUnavailableError as error:
            if error.cause == "too_many_states":
                self._succeeded()
            else:
                self._failed()
            raise
        except Exception:  # a cancellation says nothing
            self._succeeded()
            raise
        else:
            self._succeeded()

    def _succeeded(self) -> None:
        self._failures = 0
        if self._probed_at is not None:
            self._probed_at = None
            self._on_change(State.CLOSED)

    def _failed(self) -> None:
        self._failures += 1
        if self._probed_at is None and self._failures >= self._max_failures:
            self._probed_at = self._clock()
            self._on_change(State.OPEN)
