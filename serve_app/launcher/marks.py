"""The marks in the environment of each process of an instance: whose it is, and what it does there.

Ray may wipe the environment of processes that it renames, so what bears no part is Ray's.
"""

from __future__ import annotations

import contextlib
import enum
from pathlib import Path

import psutil

MARK = "GREENWAVE_INSTANCE"
PART = "GREENWAVE_PART"
KEPT_BY = "GREENWAVE_KEPT_BY"  # names a supervisor that is not ours


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
    environment = Path(f"/proc/{process.pid}/environ")
    if not environment.exists():
        return process.environ().get(name)
    # psutil stops at the gap that a renaming leaves in there
    start = f"{name}=".encode()
    for entry in environment.read_bytes().split(b"\0"):
        if entry.startswith(start):
            return entry.removeprefix(start).decode(errors="replace")
    return None
