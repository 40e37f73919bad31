"""Copies of states on their way into the store, many in one write."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from deployments.log import RateLimitedLogger
from deployments.stateful.authority.fenced_writer import FencedWriter, SupersededError
from deployments.stateful.authority.rows import Copy, copy_row, pack_copy
from deployments.stateful.protocol import AuthorityUnavailableError, Key
from deployments.trace_context import MOST_LINKED, Trace, traces_of
from deployments.tracing import process as tracing

ROWS_PER_WRITE = 1000
RETRY_PAUSE_S = 0.05
_DEADLINE_S = 4.0


class Copies(Protocol):
    """Where the authority puts copies. ``put`` and ``erase`` only note what is to be written."""

    def put(self, key: Key, copy: Copy) -> None: ...

    def erase(self, key: Key) -> None: ...

    def hurry(self, key: Key) -> None:
        """Write soon: nobody but the authority has this state now."""

    async def flush(self) -> None:
        """Return when all that was noted before is written.

        Raises:
            AuthorityUnavailableError: it is not, within seconds.
        """


class NoCopies:
    """States live in memory alone; only the row of the partition and resets are in the store."""

    def put(self, key: Key, copy: Copy) -> None: ...

    def erase(self, key: Key) -> None: ...

    def hurry(self, key: Key) -> None: ...

    async def flush(self) -> None: ...


class WriteBehind:
    """Writes what was noted: urgent copies at once, the others once in a period.

    Args:
        stamp: marks the copies.
        every_put_is_urgent: in durable mode commits wait for their copies.
    """

    def __init__(
        self, writer: FencedWriter, stamp: bytes, every_put_is_urgent: bool = False
    ) -> None:
        self._writer = writer
        self._stamp = stamp
        self._every_put_is_urgent = every_put_is_urgent
        # None: to be erased. Of a key in both, the pending copy is the newer one.
        self._urgent: dict[Key, Copy | None] = {}
        self._pending: dict[Key, Copy | None] = {}
        self._flushing: list[asyncio.Future[None]] = []
        self._traces: deque[Trace] = deque(maxlen=MOST_LINKED)  # of what is noted
        self._wake = asyncio.Event()
        self._log = RateLimitedLogger("Copies of hidden states")

    def put(self, key: Key, copy: Copy) -> None:
        self._note(key, copy)

    def erase(self, key: Key) -> None:
        self._note(key, None)

    def _note(self, key: Key, copy: Copy | None) -> None:
        self._pending[key] = copy
        self._traces.extend(tracing.current())
        if self._every_put_is_urgent or key in self._urgent:
            self.hurry(key)

    def hurry(self, key: Key) -> None:
        if key in self._pending:
            self._urgent[key] = self._pending.pop(key)
            self._wake.set()

    def _hurry_all(self) -> None:
        self._urgent |= self._pending
        self._pending = {}

    async def flush(self) -> None:
        self._hurry_all()
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushing.append(flushed)
        self._wake.set()
        try:
            async with asyncio.timeout(_DEADLINE_S):
                await flushed
        except TimeoutError as error:
            raise AuthorityUnavailableError("the store does not take the copies") from error

    async def run(self, period_s: float) -> None:
        """Write for ever; a store that does not serve is tried again.

        Raises:
            SupersededError: another life has the partition.
        """
        clock = asyncio.get_running_loop().time
        due = clock() + period_s
        while True:
            try:
                async with asyncio.timeout_at(due):
                    await self._wake.wait()
                late = clock() >= due  # urgent copies may come all the time
            except TimeoutError:
                late = True
            if late:
                self._hurry_all()
                due = clock() + period_s
            self._wake.clear()
            try:
                await self._write_urgent()
            except SupersededError:
                raise
            except AuthorityUnavailableError as error:
                self._log.warning("not written yet", "Copies are not written yet: %s", error)
                await asyncio.sleep(RETRY_PAUSE_S)
                self._wake.set()

    async def _write_urgent(self) -> None:
        rows, self._urgent = self._urgent, {}
        flushing, self._flushing = self._flushing, []
        traces = traces_of(self._traces)
        self._traces.clear()
        try:
            with tracing.covering("write copies", traces, attributes={"states": len(rows)}):
                await self._write_in_parts(rows)
        except BaseException:
            self._urgent = rows | self._urgent  # what came meanwhile is newer
            self._flushing = flushing + self._flushing
            raise
        for flushed in flushing:
            if not flushed.done():
                flushed.set_result(None)

    async def _write_in_parts(self, rows: dict[Key, Copy | None]) -> None:
        keys = list(rows)
        for start in range(0, len(keys), ROWS_PER_WRITE):
            await self._write({key: rows[key] for key in keys[start : start + ROWS_PER_WRITE]})

    async def _write(self, rows: dict[Key, Copy | None]) -> None:
        puts = {copy_row(key): pack_copy(copy, self._stamp) for key, copy in rows.items() if copy}
        erased = [copy_row(key) for key, copy in rows.items() if copy is None]
        await self._writer.write(puts, erased)
