"""Files that are never seen half written, and folders that will take them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO


@contextmanager
def atomic_write(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Write a file that takes its name, and the place of an older one, once it is on the disk.

    Until then, and if writing fails, an older file stays as it was. One process may write it at a
    time.

    Args:
        mode: its permissions, less those that the umask takes away.

    Raises:
        OSError: it cannot be written.
    """
    if not path.name:  # '' and '.' are folders
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    part = path.with_name(f"{path.name}.part")
    try:
        try:
            with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if str(error.filename) == str(part):  # a name that no user knows
            error.filename = str(path)
        raise


def check_writable(folder: Path) -> None:
    """Check that files can be written to a folder, or that it can be created; leave nothing.

    Raises:
        OSError: they cannot be.
    """
    place = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    try:
        with TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None
