"""``greenwave up --foreground``: for a container, which lives as long as its first process."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from serve_app.errors import InstanceError
from serve_app.processes.instance import Instance
from serve_app.processes.supervision.supervisor import Supervisor

_POLL_S = 0.5


def exit_on_sigterm() -> None:
    """Handle SIGTERM, which the first process of a container ignores by default, as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def stay(instance: Instance, supervisor: Supervisor) -> None:
    """Wait for Ctrl-C or SIGTERM, and stop the instance.

    Raises:
        InstanceError: the guard of the supervisor has died; the instance has been stopped.
    """
    try:
        while supervisor.is_guarded():
            _reap()
            time.sleep(_POLL_S)
        raise InstanceError("The supervisor has died; everything else was stopped.")
    except KeyboardInterrupt:
        return
    finally:
        instance.stop()


def _reap() -> None:
    """Reap orphans, as the first process of a container must."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
