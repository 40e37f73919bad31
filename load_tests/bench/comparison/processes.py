"""What a contender takes of the machine: CPU time and memory of all its processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

import psutil


def started_by(leader: int) -> list[psutil.Process]:
    """Return what lives of a process that leads a session, first, and of all that it has started.

    They are found by the session, in case it has ended, or by their parents, in case they have left
    the session.
    """
    found = [process for process in psutil.process_iter() if _session(process.pid) == leader]
    with contextlib.suppress(psutil.NoSuchProcess):
        found += psutil.Process(leader).children(recursive=True)
    return sorted(set(found), key=lambda process: process.pid != leader)


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU time of the processes since they started.

    With that of ended children, which their parents inherit: so nothing is lost of a process that
    ends between two looks.
    """
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def busy_seconds() -> float:
    """Return the CPU time of all programs, and that which the machine's host gave to others."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.steal)


def resident_bytes(processes: Iterable[psutil.Process]) -> int:
    """Return the memory of the processes: a page that n processes share counts 1/n in each."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def end(processes: Sequence[psutil.Process], patience_s: float = 10.0) -> None:
    """Ask the first to end, wait for all, and kill what is left."""
    for process in processes[:1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            psutil.wait_procs([process], patience_s)
    _, left = psutil.wait_procs(processes, 0.5)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, patience_s)


def _session(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)
    return None
