"""Memory beside a table, which all its processes map and change without a transaction."""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from deployments.stateful.errors import UnavailableError

T = TypeVar("T", float, int)

LOG_BYTES = 4 << 20
_HEAD_BYTES = mmap.PAGESIZE
_ENTRY = struct.Struct("<QI")


def boot_clock() -> float:
    """Return seconds since boot, including time asleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _Number(Generic[T]):
    """A number of 8 bytes in the memory of a page."""

    def __init__(self, at: int, form: str) -> None:
        self._at, self._form = at, struct.Struct(form)

    def __get__(self, page: Page, kind: object) -> T:
        number: T = self._form.unpack_from(page.memory, self._at)[0]
        return number

    def __set__(self, page: Page, number: T) -> None:
        self._form.pack_into(page.memory, self._at, number)


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

    valid_until = _Number[float](0, "<d")
    copied = _Number[int](8, "<Q")
    forgotten = _Number[int](16, "<Q")
    _end = _Number[int](24, "<Q")

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), self.SIZE)
        self._read_to = 0, 0  # the latest transaction that was read, and the end of it in the log

    @property
    def log_is_filling(self) -> bool:
        return self._end > LOG_BYTES // 2

    def require_valid(self) -> None:
        """Check that the table may be changed now.

        Raises:
            UnavailableError: another home may have taken over.
        """
        if boot_clock() >= self.valid_until:
            raise UnavailableError("The home of the hidden states has lost its term")

    def note(self, number: int, names: Sequence[bytes]) -> None:
        """Note the rows that a transaction changes."""
        joined, end = b"\n".join(names), self._end
        at = _HEAD_BYTES + end
        begin = at + _ENTRY.size
        if begin + len(joined) > self.SIZE:
            self._begin_anew(number)
            return
        _ENTRY.pack_into(self.memory, at, number, len(joined))
        self.memory[begin : begin + len(joined)] = joined
        self._end = end + _ENTRY.size + len(joined)  # at last, so that all of it is there

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
            rest = self.memory[_HEAD_BYTES + copied_end : _HEAD_BYTES + self._end]
            forgotten = self.forgotten
            self._begin_anew(latest)  # if this process is killed here, all rows are copied
            self.memory[_HEAD_BYTES : _HEAD_BYTES + len(rest)] = rest
            self._end = len(rest)
            self.forgotten = forgotten
        self._read_to = latest, self._end
        return self.memory[_HEAD_BYTES : _HEAD_BYTES + self._end]

    def _begin_anew(self, number: int) -> None:
        self.forgotten = number
        self._end = 0


def names_in(log: bytes, since: int) -> Iterator[bytes]:
    """Yield the names in a log that have changed after a transaction, some more than once."""
    at = 0
    while at < len(log):
        number, length = _ENTRY.unpack_from(log, at)
        at += _ENTRY.size
        if number > since:
            yield from log[at : at + length].split(b"\n")
        at += length
