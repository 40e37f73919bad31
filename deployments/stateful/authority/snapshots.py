"""Snapshots of states in the store: their format, and the loop that writes them in batches."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import struct
from collections import deque
from typing import NamedTuple

from pydantic_core import to_json

from deployments.log import RateLimitedLogger
from deployments.stateful.authority.fenced_writer import (
    ROWS_PER_WRITE,
    FencedWriter,
    SupersededError,
)
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    Key,
    Receipt,
    Receipts,
    Version,
)
from deployments.trace_context import MAX_LINKED, Trace, traces_of
from deployments.tracing import process as tracing

logger = logging.getLogger("ray.serve")

RETRY_PAUSE_S = 0.05
FLUSH_TIMEOUT_S = 4.0

_PREFIX = "copy/"
_STAMP_BYTES = 8
_HEADER = struct.Struct(f"<{_STAMP_BYTES}sQQq")  # cluster stamp, epoch (low half, high), step
_LOW = 2**64 - 1


class Snapshot(NamedTuple):
    """A state as it was committed."""

    version: Version
    state: bytes
    receipts: Receipts = ()

    def pack(self, stamp: bytes) -> bytes:
        epoch, step = self.version
        header = _HEADER.pack(stamp, epoch & _LOW, epoch >> 64, step)
        rows = [(*each[:3], *each.output) for each in self.receipts]
        # A third of the standard library's time: all states may be packed in each period.
        receipts = to_json(rows, inf_nan_mode="constants") if rows else b""
        return header + self.state + receipts

    @classmethod
    def unpack(cls, value: bytes, state_bytes: int) -> Snapshot | None:
        """Read a snapshot of a state of that size; return None for a damaged one."""
        end = _HEADER.size + state_bytes
        if len(value) < end:
            logger.error("Ignored a snapshot of %d bytes; a state has %d", len(value), end)
            return None
        _, low, high, step = _HEADER.unpack_from(value)
        version, state, packed = (
            Version(high << 64 | low, step),
            value[_HEADER.size : end],
            value[end:],
        )
        try:
            receipts = tuple(map(Receipt.from_json, json.loads(packed))) if packed else ()
        except (ValueError, TypeError) as error:
            logger.error("Ignored a snapshot with damaged receipts: %s", error)
            return None
        return cls(version, state, receipts)


def snapshot_row(key: Key) -> str:
    return f"{_PREFIX}{key.run}/{key.entity}"


def key_of(row: str) -> Key | None:
    """Return the key of a snapshot's row; None for another kind of row."""
    if not row.startswith(_PREFIX):
        return None
    run, _, entity = row.removeprefix(_PREFIX).partition("/")
    return Key(run, entity)


def cluster_stamp(session: str) -> bytes:
    """Return the mark of the snapshots of one start of the cluster."""
    return hashlib.blake2b(session.encode(), digest_size=_STAMP_BYTES).digest()


def has_stamp(value: bytes, stamp: bytes) -> bool:
    return value.startswith(stamp)


class SnapshotWriter:
    """Writes snapshots behind the commits: urgent ones at once, the others once in a period.

    Args:
        stamp: of this start of the cluster.
        every_put_is_urgent: whether commits wait for their snapshots.

    Attributes:
        writing: held while snapshots are being written.
    """

    def __init__(self, writer: FencedWriter, stamp: bytes, every_put_is_urgent: bool) -> None:
        self.writing = asyncio.Lock()
        self._writer = writer
        self._stamp = stamp
        self._every_put_is_urgent = every_put_is_urgent
        # None: to be erased. Of a key in both, the pending snapshot is the newer one.
        self._urgent: dict[Key, Snapshot | None] = {}
        self._pending: dict[Key, Snapshot | None] = {}
        self._flushes: list[asyncio.Future[None]] = []
        self._traces: deque[Trace] = deque(maxlen=MAX_LINKED)  # of what is noted
        self._wake = asyncio.Event()
        self._log = RateLimitedLogger("Snapshots of hidden states")

    def put(self, key: Key, snapshot: Snapshot | None) -> None:
        """Note a snapshot to be written; None erases the one in the store."""
        self._pending[key] = snapshot
        self._traces.extend(tracing.current())
        if self._every_put_is_urgent or key in self._urgent:
            self.expedite(key)

    def forget(self, key: Key) -> None:
        """Drop what was noted for a key, while the caller holds ``writing``."""
        self._pending.pop(key, None)
        self._urgent.pop(key, None)

    def expedite(self, key: Key) -> None:
        """Write at once: only the authority has this state now."""
        if key in self._pending:
            self._urgent[key] = self._pending.pop(key)
            self._wake.set()

    def _expedite_all(self) -> None:
        self._urgent |= self._pending
        self._pending = {}

    async def flush(self) -> None:
        """Return when everything that was noted before is written.

        Raises:
            AuthorityUnavailableError: it was not written within seconds.
        """
        self._expedite_all()
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append(flushed)
        self._wake.set()
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                await flushed
        except TimeoutError as error:
            raise AuthorityUnavailableError("The store does not accept snapshots") from error

    async def run(self, period_s: float) -> None:
        """Write until cancelled; retry while the store is unavailable.

        Raises:
            SupersededError: another term has the partition.
        """
        clock = asyncio.get_running_loop().time
        due = clock() + period_s
        while True:
            try:
                async with asyncio.timeout_at(due):
                    await self._wake.wait()
                is_due = clock() >= due  # urgent snapshots may wake it all the time
            except TimeoutError:
                is_due = True
            if is_due:
                self._expedite_all()
                due = clock() + period_s
            self._wake.clear()
            try:
                await self._write_urgent()
            except SupersededError:
                raise
            except AuthorityUnavailableError as error:
                self._log.warning("retried", "Snapshots were not written, retrying: %s", error)
                await asyncio.sleep(RETRY_PAUSE_S)
                self._wake.set()

    async def _write_urgent(self) -> None:
        async with self.writing:
            await self._take_and_write()

    async def _take_and_write(self) -> None:
        urgent, self._urgent = self._urgent, {}
        flushes, self._flushes = self._flushes, []
        traces = traces_of(self._traces)
        self._traces.clear()
        try:
            with tracing.covering("write snapshots", traces, attributes={"states": len(urgent)}):
                await self._write(urgent)
        except BaseException:
            self._urgent = urgent | self._urgent  # what was noted meanwhile is newer
            self._flushes = flushes + self._flushes
            raise
        for flushed in flushes:
            if not flushed.done():
                flushed.set_result(None)

    async def _write(self, snapshots: dict[Key, Snapshot | None]) -> None:
        keys = list(snapshots)
        for start in range(0, len(keys), ROWS_PER_WRITE):
            puts: dict[str, bytes] = {}
            erased: list[str] = []
            for key in keys[start : start + ROWS_PER_WRITE]:
                if (snapshot := snapshots[key]) is None:
                    erased.append(snapshot_row(key))
                else:
                    puts[snapshot_row(key)] = snapshot.pack(self._stamp)
            await self._writer.write(puts, erased)
