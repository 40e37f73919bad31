"""What another user of this machine can do to the files of a system."""

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil

NOBODY = 65534
WRITING = os.O_WRONLY | os.O_RDWR


def files_of(processes: Iterable[psutil.Process], *folders: Path) -> set[Path]:
    """Return the folders, all that is in them, and all that the processes write or listen to."""
    found = {each for folder in folders for each in (folder, *folder.rglob("*"))}
    bound = _bound_sockets()
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
                found |= {*_written_to(descriptor, bound)}
    return found


def _bound_sockets() -> dict[str, str]:
    """Return the path of each Unix socket by its number; that of an abstract one begins with @."""
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {f"socket:[{row[6]}]": row[7] for row in rows if len(row) > 7}


def _written_to(descriptor: Path, bound: dict[str, str]) -> Iterator[Path]:
    with contextlib.suppress(OSError):  # it is closed
        target = str(descriptor.readlink())
        flags = (descriptor.parents[1] / "fdinfo" / descriptor.name).read_text()
        is_written = int(flags.split("flags:")[1].split()[0], 8) & WRITING
        if target in bound:
            yield (descriptor.parents[1] / "cwd").readlink() / bound[target]
        elif is_written and Path(target).exists() and not Path(target).is_char_device():
            yield Path(target)


def done_by_nobody(paths: Iterable[Path]) -> list[str]:
    """Return what the user nobody can do: list, read, write to, move, replace, connect to."""
    with ProcessPoolExecutor(1, get_context("spawn"), _become_nobody) as process:
        return process.submit(_try_all, sorted(paths)).result()


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def _try_all(paths: list[Path]) -> list[str]:
    done = [
        f"{name} {path}" for path in paths for name, act in ACTS.items() if _succeeds(act, path)
    ]
    above = {folder for path in paths for folder in path.parents if folder.name}
    return done + [f"move {each}" for each in sorted(above) if _succeeds(_move, each)]


def _succeeds(act: Callable[[Path], object], path: Path) -> bool:
    try:
        act(path)
    except OSError:
        return False
    return True


def _open(path: Path, flags: int) -> None:
    if not stat.S_ISFIFO(path.stat().st_mode):
        os.close(os.open(path, flags))


def _move(path: Path) -> None:
    away = path.with_name(f"{path.name}.moved")
    path.rename(away)
    away.rename(path)


def _create(path: Path) -> None:
    (path / "mine").mkdir()
    (path / "mine").rmdir()


def _connect(path: Path) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_UNIX, kind) as client:
            if client.connect_ex(os.fspath(path)) == 0:
                return
    raise ConnectionRefusedError


ACTS: dict[str, Callable[[Path], object]] = {
    "list": os.listdir,
    "read": lambda path: _open(path, os.O_RDONLY),
    "write": lambda path: _open(path, os.O_WRONLY),
    "create in": _create,
    "move": _move,
    "connect to": _connect,
}
