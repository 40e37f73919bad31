"""The log of a shadow run: lines of JSON that are only ever appended, each whole.

A segment begins with a header: at every start of the recorder, and where the records' clock jumps.
The other lines are records, with the recommendation where they are decisions.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from lab.shadow.records import Record, RecordForm, mistake_of
from models.networks.network import Network

SYNC_EVERY_S = 1.0
BACK_S, GAP_S = 1.0, 60.0  # records arrive a little late; a longer silence is a gap
_HEAD = b'{"segment":'

Open = Callable[[Path], BinaryIO]


class ShadowLogError(Exception):
    """The log cannot be written or read; one sentence."""


class Segment(BaseModel):
    """The header of a segment.

    Attributes:
        segment: its number, from 1 on.
        reason: why it begins.
        network: digest of the network's junctions.
        run: of the policy's hidden states, begun with the segment.
        source: of the records, so that a recording continues where it has stopped.
        line: of the source, the last one before the segment.
    """

    model_config = ConfigDict(frozen=True)

    segment: int = Field(ge=1)
    reason: str
    network: str
    run: str = ""
    source: str = ""
    line: int = 0


class Entry(Record):
    """A record in the log.

    Attributes:
        line: of the source.
        recommended: the phase that the policy asks for; None without the policy.
        answer: ``policy``; else why there is no recommendation.
    """

    line: int = 0
    recommended: Annotated[int, Field(ge=0)] | None = None
    answer: str | None = None


class Clock:
    """Finds jumps of the records' clock."""

    def __init__(self, gap_s: float = GAP_S) -> None:
        self._gap_s = gap_s
        self._last_s: float | None = None

    def jump(self, time_s: float) -> str:
        """Return how far the clock has jumped to this time, in words; empty if it has not."""
        last_s = time_s if self._last_s is None else self._last_s
        passed_s = time_s - last_s
        if -BACK_S <= passed_s <= self._gap_s:
            self._last_s = max(time_s, last_s)
            return ""
        self._last_s = time_s
        direction = "back" if passed_s < 0 else "forward"
        return f"the time jumps {direction} by {abs(passed_s):.0f} s, to {in_words(time_s)}"


def in_words(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Tail(NamedTuple):
    """Where a log ends: the header of its last segment, and the last line of the source."""

    segment: Segment
    line: int


def _open(path: Path) -> BinaryIO:
    return open(path, "a+b", buffering=0)


class LogWriter:
    """Appends lines to a log, and forces them to the disk about once a second.

    A line is written whole or not at all; what a crash has left of one is removed first.

    Args:
        max_bytes: the log does not grow beyond.
        open: opens the file to append to it, without a buffer.

    Attributes:
        tail: of the log as it was; None for a new one.

    Raises:
        ShadowLogError: the file cannot be written, or another process records into it.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        open: Open = _open,
    ) -> None:
        self._path, self._max_bytes, self._clock = path, max_bytes, clock
        try:
            self._file = open(path)
        except OSError as error:
            raise ShadowLogError(f"{path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ShadowLogError(f"Another process records into {path}") from None
        self._synced_s = clock()
        try:
            self.tail = self._recover()
        except ShadowLogError:
            self._file.close()
            raise

    def append(self, value: BaseModel) -> None:
        """Append a line.

        Raises:
            ShadowLogError: the disk is full, or the log has its largest size; it ends with a whole
                line.
        """
        line = value.model_dump_json(exclude_none=True, by_alias=True).encode() + b"\n"
        if self._size + len(line) > self._max_bytes:
            raise ShadowLogError(
                f"{self._path} has its largest size, {self._max_bytes} bytes. Record into another"
                " file, or raise --max-bytes"
            )
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
            self._size += len(line)
            if self._clock() - self._synced_s >= SYNC_EVERY_S:
                self._sync()
        except OSError as error:
            self._truncate()
            raise ShadowLogError(
                f"{self._path} cannot be written: {error.strerror}. It ends with a whole record;"
                " free space, and repeat the command to continue"
            ) from error

    def close(self) -> None:
        """Force the log to the disk.

        Raises:
            ShadowLogError: that failed.
        """
        try:
            self._sync()
        except OSError as error:
            raise ShadowLogError(f"{self._path} cannot be written: {error.strerror}") from error
        finally:
            self._file.close()

    def _sync(self) -> None:
        if self._is_file:
            os.fsync(self._file.fileno())
        self._synced_s = self._clock()

    def _truncate(self) -> None:
        if self._is_file:
            os.ftruncate(self._file.fileno(), self._size)

    def _recover(self) -> Tail | None:
        self._size = os.fstat(self._file.fileno()).st_size
        self._is_file = self._path.is_file()
        if not self._size or not self._is_file:
            return None
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if not _HEAD.startswith(content[: len(_HEAD)]):
                raise ShadowLogError(f"{self._path} is not a log of greenwave lab shadow")
            whole = content.rfind(b"\n") + 1
            head = content.rfind(b"\n" + _HEAD, 0, whole) + 1
            segment = content[head : content.find(b"\n", head)]
            last = content[content.rfind(b"\n", 0, whole - 1) + 1 : whole]
        self._size = whole
        self._truncate()
        if not whole:
            return None
        form = Segment if last.startswith(_HEAD) else Entry
        try:
            line = form.model_validate_json(last).line
            return Tail(Segment.model_validate_json(segment), line)
        except ValueError as error:
            reason = mistake_of(error)
            raise ShadowLogError(f"{self._path} has a damaged end: {reason}") from error


def read_log(path: Path, network: Network) -> Iterator[Segment | Entry]:
    """Yield the headers and entries of a log, or of a file with records alone.

    A jump of the clock within a file of records begins a segment, too. An unfinished last line, as
    while the recorder runs, is left out.

    Raises:
        ShadowLogError: it cannot be read, is of another network, or a line is damaged.
    """
    form, clock, number = RecordForm(network), Clock(), 0
    try:
        with path.open("rb") as lines:
            for place, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    if line.startswith(_HEAD):
                        segment = Segment.model_validate_json(line)
                        if segment.network != network.digest:
                            raise ValueError("it is of another network")
                        clock, number = Clock(float("inf")), segment.segment
                        yield segment
                        continue
                    entry = Entry.model_validate_json(line)
                    form.check(entry)
                except ValueError as error:
                    raise ShadowLogError(f"{path}, line {place}: {mistake_of(error)}") from error
                jump = clock.jump(entry.time)
                if jump or not number:
                    number += 1
                    yield Segment(segment=number, reason=jump or "start", network=network.digest)
                yield entry
    except OSError as error:
        raise ShadowLogError(f"{path} cannot be read: {error.strerror}") from error
