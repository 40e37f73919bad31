"""CPU time and memory of the processes of a system."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence

import psutil

from serve_app.processes.process_tags import read_command

KINDS = {
    "ray::ServeReplica": "replicas",
    "ray::StateActor": "state actors",
    "haproxy": "HAProxy",
}
"""Kinds of process, by the start of their titles; any other is of the kind ``REST``."""
REST = "rest"


def started_by(leader: int) -> list[psutil.Process]:
    """Return the living processes that the leader of a session has started, the leader first.

    Some are found by the session, which outlives the leader; some by their parents, because they
    have left the session.
    """
    found = [process for process in psutil.process_iter() if _session(process.pid) == leader]
    with contextlib.suppress(psutil.NoSuchProcess):
        found += psutil.Process(leader).children(recursive=True)
    return sorted(set(found), key=lambda process: process.pid != leader)


def titled(processes: Iterable[psutil.Process], text: str) -> list[psutil.Process]:
    """Return the processes with a text in their title or command line."""
    return [each for each in processes if text in " ".join([*read_command(each), ""])]


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU time of processes since they started."""
    return sum(map(_cpu_seconds_of, processes))


def cpu_seconds_by_kind(processes: Iterable[psutil.Process]) -> defaultdict[str, float]:
    """Return the CPU time of each kind of process since they started."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for process in processes:
        program = read_command(process)[0].rsplit("/", 1)[-1]
        kind = next((kind for start, kind in KINDS.items() if program.startswith(start)), REST)
        seconds[kind] += _cpu_seconds_of(process)
    return seconds


def memory_bytes(processes: Iterable[psutil.Process]) -> int:
    """Return the memory of processes; a page that n of them share counts 1/n in each (PSS)."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def own_bytes(processes: Iterable[psutil.Process], titles: tuple[str, ...]) -> int:
    """Return the memory that processes with one of these titles share with no other (USS)."""
    found = [each for each in processes if read_command(each)[0].startswith(titles)]
    return sum(each.memory_full_info().uss for each in found)


def stop(processes: Sequence[psutil.Process], timeout_s: float = 10.0) -> None:
    """Terminate the first process, wait for all, and kill those that are left."""
    for process in processes[:1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            psutil.wait_procs([process], timeout_s)
    _, left = psutil.wait_procs(processes, 0.5)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout_s)


def _cpu_seconds_of(process: psutil.Process) -> float:
    """Return a process' CPU time with that of its ended children, which would be lost otherwise."""
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def _session(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)
    return None
