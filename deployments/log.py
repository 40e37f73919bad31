"""Lines for whoever runs the system: what they are about, and no floods of them.

Serve writes the lines of this logger into the file of the replica, whose name has the application,
the deployment and the replica; :func:`deployments.ray_private.serve.prepare_log` adds the
request. A state actor has a file of its own beside these.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

logger = logging.getLogger("ray.serve")

PERIOD_S = 10.0
MAX_FILE_BYTES = 32 << 20


def about(**context: str | None) -> str:
    """Return what a line is about, to be put at its end: `` [run=default junction=300839359]``."""
    known = " ".join(f"{name}={value}" for name, value in context.items() if value is not None)
    return f" [{known}]" if known else ""


def write_to(path: Path, name: str) -> None:
    """Write the lines of this process to a file, in a process that is no replica of Serve.

    Args:
        name: of what writes, for each line.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=MAX_FILE_BYTES, backupCount=1, delay=True)
    handler.setFormatter(logging.Formatter(f"%(levelname)s %(asctime)s {name} -- %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


class Seldom:
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
        logger.warning(f"{message}%s", *args, about(**context))
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
        logger.warning("%s does not serve%s: %s", self._what, earlier, error)

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
            )
        self._failures = 0
