"""Kills processes that are stopped and keep a table from others.

LMDB frees the lock of a writer that has ended, not of one that is stopped, as by a debugger: no
process of the machine can write until it goes on. A stopped reader does not answer, and lets the
table grow. A process that is only slow is left alone.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import lmdb

from deployments.stateful.table import Table

POLL_S = 0.1
WRITER_POLLS = 8  # 0.7 s
READER_POLLS, READER_EVERY = 4, 5  # 1.5 s

_OWNER = 0x3FFFFFFF  # the bits of a mutex that have its owner
# Of a stopped thread: its process, and its switches, which are others once it has run.
_STOPPED = re.compile(rb"\nState:\t[Tt] .*\nTgid:\t(\d+)\n.*\n(voluntary_.*)", re.DOTALL)
_Seen = dict[int, tuple[tuple[bytes, ...], int]]

logger = logging.getLogger("ray.serve")


class Watchdog:
    """A thread that watches the processes of a table. It must stop before the table closes.

    Args:
        lock: LMDB's file beside the table, ``table-lock``.
    """

    def __init__(self, table: Table, lock: Path) -> None:
        self._table = table
        self._lock = lock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        address, self._file = _mapping(self._lock)
        offset = _owner_offset() if address else None
        if offset is None:
            logger.warning("Stopped writers are killed late: no owner is found in %s", self._lock)
        writers: _Seen = {}
        readers: _Seen = {}
        for poll in itertools.count():
            if self._stopping.wait(POLL_S):
                return
            if offset is not None:
                owner = _words(address + offset, 4)[0] & _OWNER
                writers = self._watch(writers, {owner} - {0}, WRITER_POLLS, "writer")
            if poll % READER_EVERY == 0:
                try:
                    pids = self._table.pids()
                except lmdb.Error:  # it is being closed
                    return
                readers = self._watch(readers, pids, READER_POLLS, "reader")

    def _watch(self, seen: _Seen, threads: Iterable[int], most: int, what: str) -> _Seen:
        """Kill the threads that were stopped in so many polls; return what was seen now."""
        now: _Seen = {}
        for thread in threads:
            stopped = _stopped(thread)
            if stopped is not None:
                before, polls = seen.get(thread, (stopped, 0))
                now[thread] = stopped, polls + 1 if stopped == before else 1
                if now[thread][1] == most:
                    self._kill(thread, stopped, what)
        return now

    def _kill(self, thread: int, stopped: tuple[bytes, ...], what: str) -> None:
        pid = int(stopped[0])
        try:
            # A number of another namespace of processes can be that of any process here.
            is_ours = any(file == self._file for _, file, _ in _mappings(pid))
            if is_ours and _stopped(thread) == stopped:
                os.kill(pid, signal.SIGKILL)
                logger.warning("Process %d was killed: a stopped %s of hidden states", pid, what)
        except OSError as error:
            logger.warning("Process %d, a stopped %s, cannot be killed: %s", pid, what, error)


def _stopped(thread: int) -> tuple[bytes, ...] | None:
    """Return the process and the switches of a stopped thread of another process."""
    try:
        found = _STOPPED.search(Path(f"/proc/{thread}/status").read_bytes())
    except OSError:
        return None
    return found.groups() if found and int(found[1]) != os.getpid() else None


def _owner_offset() -> int | None:
    """Return where LMDB's lock has the thread that holds it, by holding one; None if nowhere."""
    own, size = threading.get_native_id(), 4096
    try:
        with tempfile.TemporaryDirectory() as folder:
            table = lmdb.open(f"{folder}/table", subdir=False)
            address, _ = _mapping(Path(folder, "table-lock"))
            with table.begin(write=True):
                held = _words(address, size)
            free = _words(address, size)
            table.close()
    except (OSError, lmdb.Error):
        return None
    is_owner = [a & _OWNER == own != b & _OWNER for a, b in zip(held, free, strict=True)]
    return 4 * is_owner.index(True) if any(is_owner) else None


def _mapping(file: Path) -> tuple[int, bytes]:
    """Return the address of a mapped file, and its device and inode; 0 if it is not found.

    It is not opened to be read: closing it would free LMDB's locks.
    """
    path, found = os.fsencode(file.resolve()), _mappings("self")
    return next(((start, what) for start, what, name in found if name == path), (0, b""))


def _mappings(pid: int | str) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield address, device with inode, and path of what a process maps; see proc(5)."""
    for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
        span, _, _, device, inode, *path = line.split(None, 5)
        yield int(span.partition(b"-")[0], 16), device + b" " + inode, b"".join(path)


def _words(address: int, size: int) -> list[int]:
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        return memoryview(os.pread(memory, size, address)).cast("I").tolist()
    finally:
        os.close(memory)
