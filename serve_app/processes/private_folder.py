"""Folders in which no other user of this machine can read, write or replace anything.

Ray lets all users write to its folders, and everything there is believed, so they must be below a
private one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import stat
from pathlib import Path

from serve_app.errors import InstanceError

logger = logging.getLogger(__name__)


def user_folder() -> Path:
    """Return this user's folder for logs and sockets; short, as the path of a socket must be."""
    return Path(f"/tmp/greenwave-{os.geteuid()}")


def make_private(folder: Path) -> None:
    """Create a folder with mode 0700, or check an existing one and all folders above it.

    A folder that other users could read, but not write to, gets mode 0700.

    Raises:
        InstanceError: another user owns it, can write to it or can put another in its place.
    """
    folder = folder.absolute()
    for place in (*reversed(folder.parents), folder):
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        _check_above(place) if place != folder else _check(place)
    for place in folder.resolve().parents:  # behind links of the user's own
        _check_above(place)


def _check(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise InstanceError(
            f"{folder} is a link or a file. Remove it, or name the folder that it leads to."
        )
    _check_owner(folder, found, {os.geteuid()})
    if _others_write(found):
        raise InstanceError(
            f"Other users can write to {folder}. Remove what is not yours in it, and run"
            f" `chmod 700 {folder}`."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
        logger.warning("%s was open to other users; its mode is now 0700.", folder)


def _check_above(place: Path) -> None:
    found = place.lstat()
    _check_owner(place, found, {0, os.geteuid()})
    is_sticky = stat.S_ISLNK(found.st_mode) or found.st_mode & stat.S_ISVTX
    if _others_write(found) and not is_sticky:
        raise InstanceError(
            f"Other users can replace what is in {place}. Run `chmod go-w {place}`, or `chmod +t`"
            " if they must write to it."
        )


def _check_owner(place: Path, found: os.stat_result, owners: set[int]) -> None:
    if found.st_uid not in owners:
        try:
            owner = pwd.getpwuid(found.st_uid).pw_name
        except KeyError:
            owner = str(found.st_uid)
        raise InstanceError(
            f"{place} belongs to the user {owner}. Have it removed or given to you (chown)."
        )


def _others_write(found: os.stat_result) -> bool:
    """Return whether others can write; a user's own group has no other members by convention."""
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())
    return bool(by_group or found.st_mode & stat.S_IWOTH)
