"""A folder for the hidden states of the systems that a program starts."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deployments.stateful.files import FOLDER_VARIABLE

MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def states_folder() -> Iterator[Path]:
    """Give the systems that are started meanwhile a separate folder, in memory as by default.

    It is removed afterwards, which a system does not do with its own.
    """
    place, before = MEMORY if MEMORY.is_dir() else None, os.environ.get(FOLDER_VARIABLE)
    with tempfile.TemporaryDirectory(
        prefix="greenwave-states-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield Path(folder)
        finally:
            os.environ.pop(FOLDER_VARIABLE)
            if before is not None:
                os.environ[FOLDER_VARIABLE] = before


def used_bytes() -> int:
    """Return the memory that the tables of these systems take; their files are sparse."""
    files = Path(os.environ[FOLDER_VARIABLE]).rglob("*")
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file())
