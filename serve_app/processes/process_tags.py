"""Tags in the environment of each process: the instance that it belongs to, and its role there.

Ray may wipe the environment of processes that it renames, so a process without a role is Ray's.
"""

from __future__ import annotations

import contextlib
import enum
import time
from pathlib import Path

import psutil

INSTANCE_TAG = "GREENWAVE_INSTANCE"
ROLE_TAG = "GREENWAVE_PART"
CODE_TAG = "GREENWAVE_CODE"  # folder and version of the supervisor's code
EXEC_S = 0.1


class Role(enum.StrEnum):
    """What a process does in its instance."""

    SUPERVISOR = "supervisor"
    EDGE = "edge"
    RAY = "ray"


def role_of(process: psutil.Process) -> Role:
    with contextlib.suppress(ValueError):
        return Role(read_tag(process, ROLE_TAG) or Role.RAY)
    return Role.RAY


def read_tag(process: psutil.Process, name: str) -> str | None:
    """Read one variable of the environment that a process was started with."""
    # psutil stops at the gap that a renaming leaves
    start = f"{name}=".encode()
    for entry in _read_memory(process, "environ").split(b"\0"):
        if entry.startswith(start):
            return entry.removeprefix(start).decode(errors="replace")
    return None


def read_command(process: psutil.Process) -> list[str]:
    """Read the command that a process was started with."""
    return _read_memory(process, "cmdline").decode(errors="replace").split("\0")


def _read_memory(process: psutil.Process, name: str) -> bytes:
    """Read a file of ``/proc`` that shows memory of a process; return nothing if it has ended.

    The file is empty for a moment while the process executes a program: at its start, and when
    HAProxy's master executes itself again. Threads of the kernel have no program.
    """
    proc = Path(f"/proc/{process.pid}")
    deadline = time.monotonic() + EXEC_S
    with contextlib.suppress(OSError):
        while not (memory := (proc / name).read_bytes()) and time.monotonic() < deadline:
            (proc / "exe").readlink()
            time.sleep(0.001)
        return memory
    return b""
