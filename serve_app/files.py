"""Paths that settings name, files that only their owner can read, and locks between processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import TextIO

from serve_app.errors import ROOT

_POLL_S = 0.05


def anchored(path: str, folder: Path) -> str:
    """Make a path absolute: that of a file in ``folder``, or else of one that is shipped.

    Processes of Ray have other working folders.
    """
    own = folder.resolve() / Path(path).expanduser()
    shipped = ROOT / path
    return str(shipped if shipped.exists() and not own.exists() else own)


def create_private(path: Path, content: bytes) -> None:
    """Create a file whole and with mode 0600, unless it exists.

    Processes that start at once each link a separate file, whereas
    :func:`models.atomic_write.atomic_write` lets one writer replace a file.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def acquire_file_lock(file: TextIO | int, timeout_s: float) -> bool:
    """Lock an open file until it is closed; return False after the timeout.

    Args:
        file: or the descriptor of a folder.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
