"""The loop of the supervisor, for each of its processes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from serve_app.errors import CommandError
from serve_app.processes.status_file import StatusFile

logger = logging.getLogger("greenwave.supervision")

STABLE_S = 10.0  # a process that ran for longer is not in a crash loop
FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0


class ManagedProcess(Protocol):
    """A process under supervision."""

    def start_or_adopt(self) -> float:
        """Start it unless it runs; return when it started, in seconds of Unix time.

        Raises:
            CommandError: it cannot start now.
        """

    def wait(self) -> str:
        """Return when it has ended; say how in one sentence."""

    def stop(self) -> None:
        """Stop it gracefully."""


def supervise(
    process: ManagedProcess,
    status_file: StatusFile,
    stopping: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Restart the process whenever it ends, at once or with backoff in a crash loop, until stopped.

    Args:
        stopping: set before the process is stopped.
    """
    backoff_s = 0.0
    while not stopping.wait(backoff_s):
        started = clock()
        try:
            status_file.record_start(process.start_or_adopt())
            error = process.wait()
        except CommandError as refusal:
            error = str(refusal)
        if stopping.is_set():
            return
        logger.warning("%s", error)
        status_file.record_end(error)
        was_stable = clock() - started > STABLE_S
        backoff_s = 0.0 if was_stable else min(max(2 * backoff_s, FIRST_BACKOFF_S), MAX_BACKOFF_S)
