"""Kills processes that are stopped and keep a table from others.

LMDB frees the lock of a writer that has ended, not of one that is stopped, as by a debugger: no
process of the machine can write until it goes on. A stopped reader does not answer, and lets the
table grow. A process that is only slow is left alone.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from pathlib import Path

import lmdb

from deployments.stateful.table import Table

POLL_S = 0.2
POLLS = 5  # 0.8 to 1 s

# The number of switches to the main thread of a stopped process is another once it has run.
_STOPPED = re.compile(rb"\nState:\t[Tt] .*\n(voluntary_.*)", re.DOTALL)

logger = logging.getLogger("ray.serve")


class Watchdog:
    """A thread that watches the processes of a table. It must stop before the table closes.

    Args:
        lock: LMDB's file beside the table, ``table-lock``.
    """

    def __init__(self, table: Table, lock: Path) -> None:
        self._table = table
        self._file = _mapped_files("self").get(os.fsencode(lock.resolve()))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        seen: dict[int, tuple[bytes, int]] = {}  # switches, and polls in which they were the same
        while not self._stopping.wait(POLL_S):
            try:
                pids = self._table.pids() - {os.getpid()}
            except lmdb.Error:  # it is being closed
                return
            before, seen = seen, {}
            for pid in pids:
                switches = _stopped(pid)
                if switches is not None:
                    known, polls = before.get(pid, (switches, 0))
                    seen[pid] = switches, polls + 1 if switches == known else 1
                    if seen[pid][1] == POLLS:
                        self._kill(pid, switches)

    def _kill(self, pid: int, switches: bytes) -> None:
        try:
            # A number of another namespace of processes can be that of any process here.
            if self._file in _mapped_files(pid).values() and _stopped(pid) == switches:
                os.kill(pid, signal.SIGKILL)
                logger.warning("Process %d was killed: a stopped user of hidden states", pid)
        except OSError as error:
            logger.warning("Process %d, which is stopped, cannot be killed: %s", pid, error)


def _stopped(pid: int) -> bytes | None:
    """Return the switches of a process that is stopped."""
    try:
        found = _STOPPED.search(Path(f"/proc/{pid}/status").read_bytes())
    except OSError:
        return None
    return found[1] if found else None


def _mapped_files(pid: int | str) -> dict[bytes, tuple[bytes, bytes]]:
    """Return device and inode of each file that a process maps, by its path; see proc(5)."""
    lines = (line.split(None, 5) for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines())
    return {line[5]: (line[3], line[4]) for line in lines if len(line) == 6}
