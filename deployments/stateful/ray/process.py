"""Names of processes by which another one can tell whether they have ended."""

from __future__ import annotations

import os
from pathlib import Path


def name_of_this_process(node: str) -> str:
    """Return a name that no other process of the cluster has, or will have."""
    return f"{node}/{os.getpid()}/{_started(os.getpid())}"


def has_ended(process: str, node: str) -> bool:
    """Tell whether a process is known to have ended; nothing is known of other nodes.

    Args:
        node: the one on which this is asked.
    """
    its_node, pid, started = process.split("/")
    return its_node == node and _started(int(pid)) != started


def _started(pid: int) -> str | None:
    """Return when a living process was started, in clock ticks since boot; see proc(5)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
