"""Memory beside a table, which all its processes map and change without a transaction."""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from deployments.stateful.errors import UnavailableError

LOG_BYTES = 4 << 20
_HEAD_BYTES = mmap.PAGESIZE
_VALID_UNTIL, _COPIED, _FORGOTTEN, _END = range(0, 32, 8)  # offsets of numbers of 8 bytes
_SECONDS, _NUMBER, _ENTRY = struct.Struct("<d"), struct.Struct("<Q"), struct.Struct("<QI")


def boot_clock() -> float:
    """Return seconds since boot, including time asleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Page:
    """What a home tells the processes of its table, and a log of what they change.

    The log has the names of the rows that transactions have changed, until these are copied. It is
    written and read under the lock of the table's writers, and has a transaction before it is
    committed: a process that is killed in between leaves names that have not changed. A log that is
    full begins anew, and then all rows must be copied.

    Attributes:
        valid_until: of :func:`boot_clock`; later, no process may change the table.
        copied: number of the latest transaction that is in the store with all before it.
        forgotten: number of the latest transaction that is in the log no more.
    """

    SIZE = _HEAD_BYTES + LOG_BYTES

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), self.SIZE)
        self._read_to = 0, 0  # the latest transaction that was read, and the end of it in the log

    @property
    def valid_until(self) -> float:
        until: float = _SECONDS.unpack_from(self._map, _VALID_UNTIL)[0]
        return until

    @valid_until.setter
    def valid_until(self, until: float) -> None:
        _SECONDS.pack_into(self._map, _VALID_UNTIL, until)

    @property
    def copied(self) -> int:
        return self._get(_COPIED)

    @copied.setter
    def copied(self, number: int) -> None:
        self._set(_COPIED, number)

    @property
    def forgotten(self) -> int:
        return self._get(_FORGOTTEN)

    @property
    def log_is_filling(self) -> bool:
        return self._get(_END) > LOG_BYTES // 2

    def require_valid(self) -> None:
        """Check that the table may be changed now.

        Raises:
            UnavailableError: another home may have taken over.
        """
        if boot_clock() >= self.valid_until:
            raise UnavailableError("The home of the hidden states has lost its term")

    def note(self, number: int, names: Sequence[bytes]) -> None:
        """Note the rows that a transaction changes."""
        joined, end = b"\n".join(names), self._get(_END)
        at = _HEAD_BYTES + end
        begin = at + _ENTRY.size
        if begin + len(joined) > self.SIZE:
            self._begin_anew(number)
            return
        _ENTRY.pack_into(self._map, at, number, len(joined))
        self._map[begin : begin + len(joined)] = joined
        self._set(_END, end + _ENTRY.size + len(joined))  # at last, so that all of it is there

    def take(self, since: int, latest: int) -> bytes | None:
        """Return the log of the transactions after a number; None if it is not complete.

        Args:
            since: they and those before them are copied, and are forgotten.
            latest: number of the latest transaction.
        """
        (read_to, copied_end), self._read_to = self._read_to, (0, 0)
        # A transaction that began the log anew and was not committed has forgotten those before it.
        if not min(self.forgotten, latest) <= since <= latest:
            return None
        if copied_end and since >= read_to:
            rest = self._map[_HEAD_BYTES + copied_end : _HEAD_BYTES + self._get(_END)]
            forgotten = self.forgotten
            self._begin_anew(latest)  # if this process is killed here, all rows are copied
            self._map[_HEAD_BYTES : _HEAD_BYTES + len(rest)] = rest
            self._set(_END, len(rest))
            self._set(_FORGOTTEN, forgotten)
        self._read_to = latest, self._get(_END)
        return self._map[_HEAD_BYTES : _HEAD_BYTES + self._get(_END)]

    def _begin_anew(self, number: int) -> None:
        self._set(_FORGOTTEN, number)
        self._set(_END, 0)

    def _get(self, at: int) -> int:
        number: int = _NUMBER.unpack_from(self._map, at)[0]
        return number

    def _set(self, at: int, number: int) -> None:
        _NUMBER.pack_into(self._map, at, number)


def names_in(log: bytes, since: int) -> Iterator[bytes]:
    """Yield the names in a log that have changed after a transaction, some more than once."""
    at = 0
    while at < len(log):
        number, length = _ENTRY.unpack_from(log, at)
        at += _ENTRY.size
        if number > since:
            yield from log[at : at + length].split(b"\n")
        at += length
