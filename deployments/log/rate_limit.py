"""How few lines tell of much."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from deployments.log.context import about

logger = logging.getLogger("ray.serve")

PERIOD_S = 10.0
MOST = 10


class RateLimitedLogger:
    """Writes the first warning of a kind at once, and then how many more there were in a period.

    To be used in an event loop.

    Args:
        what: is counted; the summaries begin with it.
    """

    def __init__(self, what: str, period_s: float = PERIOD_S) -> None:
        self._what = what
        self._period_s = period_s
        self._left_out: dict[str, int] = {}

    def warning(self, kind: str, message: str, *args: object, **context: str | None) -> None:
        """Write a warning, unless there was one of this kind in the period.

        Args:
            kind: one of few.
            message, args: as of ``logging``.
            context: what the line is about.
        """
        if kind in self._left_out:
            self._left_out[kind] += 1
            return
        self._left_out[kind] = 0
        logger.warning(message, *args, extra=about(**context), stacklevel=2)
        # The summary belongs to no request.
        asyncio.get_running_loop().call_later(
            self._period_s, self._summarize, kind, context=contextvars.Context()
        )

    def _summarize(self, kind: str) -> None:
        left_out = self._left_out.pop(kind)
        if left_out:
            logger.warning(
                "%s, %s: %d more within %g s", self._what, kind, left_out, self._period_s
            )


class Outages:
    """Writes one line when something stops serving, and one when it serves again.

    Of several outages within a period only the first has lines: a server that comes and goes must
    not fill the disk.

    Args:
        what: the name of the thing.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, what: str, period_s: float = PERIOD_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._period_s = period_s
        self._clock = clock
        self._began: float | None = None
        self._told: float | None = None
        self._failures = 0
        self._unmentioned = 0

    def failed(self, error: Exception) -> None:
        """Note that it did not serve."""
        self._failures += 1
        if self._began is not None:
            return
        self._began = self._clock()
        if self._told is not None and self._began - self._told < self._period_s:
            self._unmentioned += 1
            return
        earlier = f" (as {self._unmentioned} times more before)" if self._unmentioned else ""
        self._told, self._unmentioned = self._began, 0
        line = "%s does not serve%s: %s"
        logger.warning(line, self._what, earlier, error, stacklevel=2)

    def served(self) -> None:
        """Note that it did."""
        if self._began is None:
            return
        began, self._began = self._began, None
        if began == self._told:
            lasted_s = self._clock() - began
            logger.warning(
                "%s serves again after %.1f s; %d calls failed",
                self._what,
                lasted_s,
                self._failures,
                stacklevel=2,
            )
        self._failures = 0


@dataclass
class _Place:
    """The lines of one place in the code in a period."""

    began: float
    written: int = 0
    left_out: int = 0


class RateLimitFilter(logging.Filter):
    """Lets few warnings and errors of one place in the code pass in a period.

    The net below what is written seldom anyway: no outage that nobody thought of, and no defect
    that every request meets, fills the disk. What was left out is told by the next line that
    passes.

    Args:
        most: lines of a place in a period.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        most: int = MOST,
        period_s: float = PERIOD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._most = most
        self._period_s = period_s
        self._clock = clock
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        now, key = self._clock(), (record.pathname, record.lineno)
        place = self._places.get(key)
        if place is None or now - place.began >= self._period_s:
            left_out = 0 if place is None else place.left_out
            place = self._places[key] = _Place(now)
            if left_out:
                record.msg = f"{record.getMessage()} (and {left_out} times more before)"
                record.args = ()
        passes = place.written < self._most
        place.written += passes
        place.left_out += not passes
        return passes
