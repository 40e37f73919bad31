"""The marks in the environment of each process of an instance: whose it is, and what it does there.

Ray may wipe the environment of processes that it renames, so what bears no part is Ray's.
"""

from __future__ import annotations

import contextlib
import enum
import time
from pathlib import Path

import psutil

MARK = "GREENWAVE_INSTANCE"
PART = "GREENWAVE_PART"
KEPT_BY = "GREENWAVE_KEPT_BY"  # names a supervisor that is not ours
EXEC_S = 0.1


class Part(enum.StrEnum):
    """What a process is there for."""

    SUPERVISOR = "supervisor"
    NODE = "node"  # keeps Ray
    EDGE = "edge"  # keeps the edge, or is it
    RAY = "ray"


def is_marked(process: psutil.Process, mark: str) -> bool:
    return read_mark(process, MARK) == mark


def part_of(process: psutil.Process) -> Part:
    """Return what a process does in its instance."""
    with contextlib.suppress(psutil.Error, OSError, ValueError):
        return Part(read_mark(process, PART) or Part.RAY)
    return Part.RAY


def read_mark(process: psutil.Process, name: str) -> str | None:
    """Read one variable of the environment that a process was started with."""
    if not Path("/proc").exists():
        return process.environ().get(name)
    # psutil stops at the gap that a renaming leaves in there
    start = f"{name}=".encode()
    for entry in _read_memory(process, "environ").split(b"\0"):
        if entry.startswith(start):
            return entry.removeprefix(start).decode(errors="replace")
    return None


def read_command(process: psutil.Process) -> list[str]:
    """Read the command that a process was started with."""
    if not Path("/proc").exists():
        return process.cmdline()
    return _read_memory(process, "cmdline").decode(errors="replace").split("\0")


def _read_memory(process: psutil.Process, name: str) -> bytes:
    """Read a file of ``/proc`` that shows memory of a process; of one that is gone, nothing.

    It is empty for a moment while the process executes a program: at its start, and again when
    HAProxy's master executes itself anew. Threads of the kernel have no program.
    """
    proc = Path(f"/proc/{process.pid}")
    deadline = time.monotonic() + EXEC_S
    with contextlib.suppress(OSError):
        while not (memory := (proc / name).read_bytes()) and time.monotonic() < deadline:
            (proc / "exe").readlink()
            time.sleep(0.001)
        return memory
    return b""
