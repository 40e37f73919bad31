"""What ``greenwave up`` does about the edge: writes its configuration, and lets its keeper act."""

from __future__ import annotations

import signal
import time

from serve_app.processes.edge import START_TIMEOUT_S, Edge, EdgeError
from serve_app.processes.journal import Journal


def bring_up(edge: Edge, journal: Journal) -> None:
    """Have the edge run with the present configuration; one that does so already is left alone.

    With another configuration it takes no new connections, answers those that it has, and goes,
    while its successor serves.

    Raises:
        EdgeError: as ``Edge.check``, or its keeper cannot start it.
    """
    master = edge.master()
    if master is None:
        edge.config.unlink(missing_ok=True)
        edge.check()
    elif edge.write():
        master.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (edge.is_running() and edge.answers()):
        if time.monotonic() > deadline:
            raise EdgeError(journal.read().trouble or "its log says why")
        time.sleep(0.05)


def take_down(edge: Edge) -> None:
    """End the edge; its keeper waits for another configuration."""
    edge.config.unlink(missing_ok=True)
    edge.stop()
