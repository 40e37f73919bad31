"""``greenwave up --foreground``: for a container, which lives as long as its first process."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from serve_app.processes.instance import Instance, InstanceError
from serve_app.processes.supervision.supervisor import Supervisor

_LOOK_S = 0.5


def exit_on_sigterm() -> None:
    """Take SIGTERM, which the first process of a container ignores by default, for Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def stay(instance: Instance, supervisor: Supervisor) -> None:
    """Return, everything stopped, when told to end.

    Raises:
        InstanceError: nobody keeps the instance any more; it has been stopped, too.
    """
    try:
        while supervisor.is_running():
            _reap()
            time.sleep(_LOOK_S)
        raise InstanceError("The supervisor has died; everything else was stopped.")
    except KeyboardInterrupt:
        return
    finally:
        instance.stop()


def _reap() -> None:
    """Bury processes that have lost their parents, as the first of a container must."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
