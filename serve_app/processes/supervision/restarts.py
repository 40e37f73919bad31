"""The loop of a keeper."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NoReturn, Protocol

from serve_app.processes.journal import Journal

logger = logging.getLogger("greenwave.keeper")

STEADY_S = 10.0  # a longer life is not part of a crash loop
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class CannotRunError(RuntimeError):
    """What is kept cannot run now; the message is one clear sentence."""


class Stopped(BaseException):
    """The keeper was told to end."""


class Charge(Protocol):
    """What is kept."""

    def begin(self) -> float:
        """Start it, or take over what runs; return when that began, in seconds of Unix time.

        Raises:
            CannotRunError: not now.
        """

    def wait(self) -> str:
        """Return once it has ended; say in a sentence how.

        Raises:
            CannotRunError: it never came to serve.
        """

    def stop(self) -> None:
        """End it in good order."""


def keep(
    charge: Charge,
    journal: Journal,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> NoReturn:
    """Start the charge again whenever it has ended: at once, or with growing pauses if too often.

    Raises:
        Stopped: by a signal's handler; the charge has been stopped.
    """
    pause = 0.0
    try:
        while True:
            began = clock()
            try:
                journal.note_started(charge.begin())
                trouble = charge.wait()
            except CannotRunError as error:
                trouble = str(error)
            logger.warning("%s", trouble)
            journal.note_ended(trouble)
            steady = clock() - began > STEADY_S
            pause = 0.0 if steady else min(max(2 * pause, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            sleep(pause)
    except Stopped:
        charge.stop()
        raise
