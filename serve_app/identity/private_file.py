"""Secrets in files that only their owner can read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def create_private(path: Path, content: bytes) -> None:
    """Create a file whole and with mode 0600, unless somebody else was first.

    Of several processes that start at once each has a file of its own to link, where
    :func:`models.atomic_write.atomic_write` lets one writer replace what was there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent)  # makes it with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
