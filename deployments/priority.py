"""Who goes first where all processors are at work."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_LAST = 19


def give_way() -> None:
    """Let this process go last, with all the threads that it has: Linux ranks each by itself."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), _LAST)
