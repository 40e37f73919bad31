"""The files of a shard: where they are, which process owns them, and how they are opened.

``table`` and ``table-lock`` are LMDB's, ``page`` is a :class:`.table.Page`, ``form.json`` has the
:class:`FileForm`, and the home locks ``lock``.

Reading a mapped file beyond its end, or writing where a full file system has no memory for it, ends
a process. So the table, a sparse file, has its final size from the beginning, and a shorter one is
not mapped; and the other mapped files have their memory from the beginning.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import stat
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import lmdb

from deployments.stateful.errors import FolderError
from deployments.stateful.page import Page
from deployments.stateful.row import RowForm
from deployments.stateful.table import MAX_READERS, Table, full_size

FOLDER_VARIABLE = "GREENWAVE_STATES_FOLDER"
LOCK_WAIT_S = 3.0  # a killed home's lock is free once the kernel has ended it
FORMAT = 3

_MAP_SLACK = 2 << 30  # address space, for pages that a stopped reader holds, and a log in an outage
_SIZES = {"table-lock": 64 * (MAX_READERS + 64), "page": Page.SIZE}
# File systems that nodes share, which cannot share a table.
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "gpfs", "beegfs", "fuse.sshfs")

logger = logging.getLogger("ray.serve")


def base_folder(
    need: int, memory: Path = Path("/dev/shm"), environ: Mapping[str, str] = os.environ
) -> Path:
    """Return the private folder for all tables, in memory or else on disk; created if necessary.

    Args:
        need: bytes that all tables of this machine may take; see :func:`.table.full_size`.

    Raises:
        FolderError: another user can open it or put another in its place.
    """
    if environ.get(FOLDER_VARIABLE):
        return private_folder(Path(environ[FOLDER_VARIABLE]).absolute(), 1)
    user = f"greenwave-{os.geteuid()}"
    why = _obstacle(memory, memory / user, need)
    if why is None:
        return private_folder(memory / user, 1)
    state = Path(environ.get("XDG_STATE_HOME") or f"{environ.get('HOME', '')}/.local/state")
    with contextlib.suppress(OSError):
        state.mkdir(parents=True, exist_ok=True)
    is_local = os.access(state, os.W_OK | os.X_OK) and _file_system(state) not in _NETWORK
    folder = state.absolute() / "greenwave" if is_local else Path(tempfile.gettempdir()) / user
    folder = private_folder(folder / "tables", 2)
    logger.warning(
        "Hidden states are kept on disk, where steps can wait for it, in %s: %s", folder, why
    )
    return folder


def _obstacle(memory: Path, folder: Path, need: int) -> str | None:
    if not memory.is_dir() or _file_system(memory) != "tmpfs":
        return f"{memory} is not a file system in memory"
    if not os.access(memory, os.W_OK | os.X_OK):
        return f"{memory} cannot be written to"
    space = os.statvfs(memory)  # with no blocks if it has no limit
    free = space.f_bavail * space.f_frsize
    for table in folder.glob("*/*/table"):  # of an earlier start, which goes on with what it has
        with contextlib.suppress(FileNotFoundError):
            free += table.stat().st_blocks * 512
    if space.f_blocks and free < need:
        return f"{memory} has {free >> 20} MB free, and they may need {need >> 20} MB"
    return None


def _file_system(folder: Path) -> str | None:
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        if mount.split()[2] == number:
            return kind.split()[0]
    return None


def private_folder(folder: Path, levels: int = 3, create: bool = True) -> Path:
    """Check that no other user can open a folder or those above it; create those that are missing.

    Args:
        levels: number of folders; three are the base, the application's and the shard's.

    Raises:
        FolderError: one belongs to another user, is open to others, is a link or is missing.
    """
    for place in (*reversed(folder.parents[: levels - 1]), folder):
        try:
            with contextlib.suppress(FileExistsError):
                if create:
                    place.mkdir(mode=0o700)
            found = place.lstat()
        except OSError as error:
            raise FolderError(place, f"It is missing: {error.strerror}") from error
        if not stat.S_ISDIR(found.st_mode):
            raise FolderError(place, "This is a link or a file. Remove it")
        if found.st_uid != os.geteuid():
            raise FolderError(place, f"It belongs to the user {found.st_uid}. Have it removed")
        if found.st_mode & 0o077:
            raise FolderError(place, "Other users can open it. Run `chmod 700` on it")
    return folder


@dataclass(frozen=True)
class FileForm:
    """What the table of a shard is.

    Attributes:
        nonce: in hexadecimal; no other table has it.
        boot: the kernel's id of its start, until which a table on disk, not synced, is good.
        tag: of the model whose states these are.
        term: of the home that wrote this last.
    """

    format: int
    nonce: str
    boot: str
    map_size: int
    form: str
    tag: str
    term: int = 0

    @classmethod
    def read(cls, folder: Path) -> FileForm | None:
        """Return what a folder has; None if that is missing, damaged or of another format."""
        try:
            found = cls(**json.loads((folder / "form.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        is_good = all(type(getattr(found, it.name)).__name__ == it.type for it in fields(cls))
        return found if is_good and found.format == FORMAT else None

    def write(self, folder: Path) -> None:
        file, new, text = folder / "form.json", folder / "form.json.new", json.dumps(asdict(self))
        try:
            new.touch(mode=0o600)
            new.write_text(text)
            new.replace(file)
        except OSError:
            if not file.exists():
                raise
            with file.open("r+") as opened:  # in its place, for which a full folder has memory
                opened.write(text.ljust(file.stat().st_size))


def attach(folder: Path, nonce: str, rows: RowForm) -> Table | None:
    """Open the table of a home; None if it is not on this machine, or cannot be mapped."""
    try:
        found, _ = _usable(private_folder(folder, create=False), rows)
        if found is None or found.nonce != nonce:
            return None
        table = Table(folder / "table", Page(folder / "page"), rows, found.map_size)
    except (FolderError, OSError, ValueError, lmdb.Error) as error:
        logger.info("The table of hidden states in %s is not mapped: %s", folder, error)
        return None
    found = FileForm.read(folder)
    if found is None or found.nonce != nonce:  # it was removed meanwhile
        table.close()
        return None
    return table


def _usable(folder: Path, rows: RowForm) -> tuple[FileForm | None, str]:
    """Return the form of a table that can go on; or None, and why if there is a table."""
    found = FileForm.read(folder)
    if found is None:
        is_there = (folder / "table").exists()
        return None, "form.json is damaged or of another version" if is_there else ""
    if found.boot != boot_id():
        return None, "the machine was started again"
    if found.form != str(rows):
        return None, "the model's states have another shape or data type"
    for name, size in {"table": found.map_size, **_SIZES}.items():
        file = folder / name
        if not file.exists() or file.stat().st_size < size:
            return None, f"{name} was removed or cut short"
    return found, ""


def boot_id() -> str:
    """Return what names the start of the kernel."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class OwnedFiles:
    """The files of a shard, with their home. Its watchdog stops before the table closes.

    Attributes:
        is_new: the table has none of the states of an earlier one.
    """

    table: Table
    form: FileForm
    is_new: bool

    def __init__(self, folder: Path, rows: RowForm, tag: str, max_states: int) -> None:
        """Go on with the files of a folder, or else create them.

        Raises:
            FolderError: another process owns them, or the folder cannot be used.
        """
        self.folder, self._rows = folder, rows
        size = 2 * full_size(rows, max_states) + _MAP_SLACK
        self._new = FileForm(FORMAT, "", boot_id(), size, str(rows), tag)
        self._lock = -1
        try:
            self._lock = _locked(private_folder(folder) / "lock")
            self._go_on_or_begin()
        except (OSError, lmdb.Error) as error:
            if self._lock >= 0:
                os.close(self._lock)
            raise FolderError(folder, f"The table cannot be opened: {error}") from error

    def _go_on_or_begin(self) -> None:
        found, why = _usable(self.folder, self._rows)
        if found is not None:
            size = max(self._new.map_size, found.map_size)
            try:
                self._open(replace(found, map_size=size), is_new=False)
                return
            except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError) as error:
                why = f"LMDB refuses it: {error}"
        if why:
            logger.warning("The hidden states in %s are removed: %s", self.folder, why)
        self._begin()

    def begin_anew(self) -> None:
        """Remove the table, and begin another one, with another nonce."""
        self.table.close()
        self._begin()

    def remember_term(self, term: int) -> None:
        self.form = replace(self.form, term=term)
        self.form.write(self.folder)

    def close(self) -> None:
        """Leave the files to the next home; the replicas that have mapped the table go on."""
        self.table.close()
        os.close(self._lock)

    def delete(self) -> None:
        """Remove the files, which stops what still maps them."""
        self.table.page.valid_until = 0.0
        self.table.close()
        for file in self.folder.iterdir():
            file.unlink()
        self.folder.rmdir()
        os.close(self._lock)

    def _begin(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            Page(self.folder / "page").valid_until = 0.0  # nothing is written to the old one
        for name in ("form.json", "page", "table", "table-lock"):
            (self.folder / name).unlink(missing_ok=True)
        for name, size in _SIZES.items():
            (self.folder / name).touch(mode=0o600)
            with (self.folder / name).open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        self._open(replace(self._new, nonce=uuid.uuid4().hex), is_new=True)

    def _open(self, form: FileForm, is_new: bool) -> None:
        file = self.folder / "table"
        table = Table(file, Page(self.folder / "page"), self._rows, form.map_size)
        try:
            if file.stat().st_size < form.map_size:
                os.truncate(file, form.map_size)
            form.write(self.folder)  # at last: without it, the others are nothing
        except OSError:
            table.close()
            raise
        self.table, self.form, self.is_new = table, form, is_new


def _locked(path: Path) -> int:
    """Lock a file, which has the number of the process that did, and return its descriptor."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), path.stat()):  # it was not deleted
                with contextlib.suppress(OSError):  # a full folder
                    os.pwrite(lock, b"%-20d" % os.getpid(), 0)
                return lock
        owner = os.pread(lock, 20, 0).decode().strip()
        os.close(lock)
        if time.monotonic() > deadline:
            raise FolderError(path.parent, f"Process {owner} uses these hidden states. Stop it")
        time.sleep(0.05)
