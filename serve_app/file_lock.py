"""One process after another: a lock that ends with whoever holds it."""

from __future__ import annotations

import contextlib
import fcntl
import time
from typing import TextIO

_PAUSE_S = 0.05


def acquire_file_lock(file: TextIO | int, patience_s: float) -> bool:
    """Hold the lock of an open file until it is closed; False if others hold it for too long.

    Args:
        file: or the descriptor of a folder.
    """
    deadline = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
