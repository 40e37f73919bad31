"""The guard: runs the supervisor, and runs it again when it has ended.

It imports little, since it runs all the time: ``python -m serve_app.processes.supervision.guard``,
in the data folder, with the arguments of the supervisor.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

RESTART_S, SIGNAL_S = 1.0, 1.0
STOP_S = 35.0  # Ray takes up to 30 s
ERRORS = Path("logs", "supervisor-error.log")


class Stopped(BaseException):
    """The process received a signal to stop."""


def guard(command: Sequence[str], errors: Path) -> NoReturn:
    """Run a command, and run it again when it has ended.

    Args:
        errors: file for what the command writes, overwritten with each start.

    Raises:
        Stopped: at a signal; the command has been stopped.
    """
    events = events_and_signals()
    while True:
        with errors.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        threading.Thread(target=_put_end, args=(process, events), daemon=True).start()
        event = next_event(events)
        if isinstance(event, Stopped):
            process.terminate()
            process.wait(STOP_S)
            raise event
        with contextlib.suppress(queue.Empty):
            raise events.get(timeout=RESTART_S)  # a signal, since no command runs


def _put_end(process: subprocess.Popen[bytes], events: queue.SimpleQueue[Any]) -> None:
    events.put(process.wait())


def events_and_signals() -> queue.SimpleQueue[Any]:
    """Return a queue in which each signal to stop puts a :class:`Stopped`.

    A handler that raises could interrupt the start of a process or a thread, which would then not
    be stopped.
    """
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()  # a handler may interrupt its methods
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: events.put(Stopped()))
    return events


def next_event(events: queue.SimpleQueue[Any]) -> Any:
    """Wait for an event, with pauses in which Python notices what did not end the wait.

    A signal does not if it comes just before the wait, or another thread receives it.
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return events.get(timeout=SIGNAL_S)


if __name__ == "__main__":
    os.umask(0o077)  # what it starts writes for this user alone
    with contextlib.suppress(Stopped):
        guard([sys.executable, "-P", "-m", f"{__spec__.parent}.run", *sys.argv[1:]], ERRORS)
