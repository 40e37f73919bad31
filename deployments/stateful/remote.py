"""The table over a connection, for replicas that cannot map its file.

A message is in MessagePack: the number of the call with a method and its arguments, or with what it
has returned, or with an error's name and arguments. Both ends are processes of one application.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import lmdb
import msgpack

from deployments.stateful.channel import MAX_FRAME, Channel
from deployments.stateful.errors import (
    OutcomeUnknownError,
    StateError,
    TableFullError,
    TooManyStatesError,
    UnavailableError,
)
from deployments.stateful.row import ABSENT, RowForm
from deployments.stateful.table import Listed, Operation, Read, Table, Written

logger = logging.getLogger("ray.serve")

MAX_KEPT = 8192
"""Rows that a replica keeps of those that it has written, so that a turn is one round trip."""
MAX_CALLS = 1000
"""Calls of one connection that wait for their response."""
CALL_TIMEOUT_S = 2.0
RUN_TIMEOUT_S = 10.0
COPIED_TIMEOUT_S = 4.5  # the home has a shorter one

_READS = ("get", "rows_of", "list", "latest")
_ERRORS: dict[str, type[StateError]] = {
    each.__name__: each
    for each in (TooManyStatesError, TableFullError, UnavailableError, OutcomeUnknownError)
}


def pack(*message: Any) -> bytes:
    packed: bytes = msgpack.packb(message)
    return packed


def unpack(frame: bytes) -> list[Any]:
    """Return a message.

    Raises:
        ValueError: it is not one.
    """
    try:
        message = msgpack.unpackb(frame, strict_map_key=False)
    except msgpack.UnpackException as error:
        raise ValueError(f"not a message: {error!r}") from error
    if not isinstance(message, list) or len(message) != 3:
        raise ValueError("not a message")
    return message


class TableServer:
    """The home's end of the connections.

    A transaction may wait for a process that was stopped in another one, until the watchdog has
    killed it: less than the half of a lease.

    Args:
        copied: returns when the transaction of a number is in the store.

    Attributes:
        connections: number of open ones.
    """

    def __init__(self, table: Table, copied: Callable[[int], Awaitable[None]]) -> None:
        self.connections = 0
        self._table = table
        self._copied = copied

    async def serve(self, channel: Channel) -> None:
        """Serve a connection, for :func:`.channel.listen`."""
        tasks: set[asyncio.Task[None]] = set()
        self.connections += 1
        try:
            while True:
                work = self._respond(channel, *unpack(await channel.receive()))
                tasks.add(task := asyncio.create_task(work))
                task.add_done_callback(tasks.discard)
                if len(tasks) >= MAX_CALLS:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.connections -= 1

    async def _respond(
        self, channel: Channel, call: int, method: str, arguments: Sequence[Any]
    ) -> None:
        try:
            response = pack(call, "", await self._answer(method, arguments))
        except (StateError, lmdb.Error) as error:
            known = error if isinstance(error, StateError) else UnavailableError(str(error))
            response = pack(call, *_packed(known))
        except Exception:
            logger.exception("A call of the table of hidden states failed")
            response = pack(call, *_packed(OutcomeUnknownError()))
        with contextlib.suppress(OSError, RuntimeError):  # it was closed; the latter of uvloop
            channel.send(response)
            await channel.drain()

    async def _answer(self, method: str, arguments: Sequence[Any]) -> Any:
        table = self._table
        if method == "copied":
            return await self._copied(*arguments)
        if method == "write":
            return self._write(*arguments)
        if method == "replace":
            return self._replace(*arguments)
        table.page.require_valid()
        if method == "read":
            read = table.read(*arguments)
            return read.number, read.rows.raws
        if method == "operation":
            return table.operation(Operation(*arguments[0]))
        if method in _READS:
            return getattr(table, method)(*arguments)
        raise UnavailableError(f"Not a method of the table: {method[:80]}")

    def _write(
        self,
        number: int,
        names: Sequence[bytes],
        versions: list[bytes],
        raws: Sequence[bytes],
        aside: Mapping[int, Sequence[bytes]],
    ) -> Any:
        self._require_rows(raws)
        rows = self._table.form.of(raws)
        rows.versions = versions
        left = {at: (name, row) for at, (name, row) in aside.items()}  # LMDB takes no lists
        number, raced, refused, why = self._table.write(names, Read(number, rows), None, left)
        return number, list(raced), list(refused), why and _packed(why)

    def _replace(self, operation: Sequence[Any], rows: Mapping[bytes, bytes], result: Any) -> Any:
        self._require_rows(rows.values())
        return self._table.replace(Operation(*operation), rows, result)

    def _require_rows(self, raws: Any) -> None:
        if any(len(raw) != self._table.form.size for raw in raws):
            raise UnavailableError("The rows have another form")


def _packed(error: StateError) -> tuple[str, tuple[Any, ...]]:
    return type(error).__name__, error.args


def _unpacked(name: str, arguments: Sequence[Any]) -> StateError:
    return _ERRORS[name](*arguments)


class RemoteTable:
    """A replica's end: has the methods of :class:`.table.Table`, as coroutines.

    It belongs to one connection. Once that is lost, every method raises UnavailableError. A method
    that changes the table raises OutcomeUnknownError if it was sent and not answered in time.
    """

    def __init__(self, channel: Channel, form: RowForm) -> None:
        self.form = form
        self.closed = False
        self._channel = channel
        self._calls: dict[int, asyncio.Future[tuple[str, Any]]] = {}
        self._kept: dict[bytes, bytes] = {}
        self._n_calls = 0
        self._receiving = asyncio.create_task(self._receive(), context=contextvars.Context())

    async def lost(self) -> None:
        """Return when the connection is lost."""
        await asyncio.wait([self._receiving])

    def close(self) -> None:
        """Close the connection; calls that wait fail."""
        self.closed = True
        self._channel.close()
        self._receiving.cancel()
        for answered in self._calls.values():
            if not answered.done():
                answered.set_exception(ConnectionResetError("The connection was lost"))

    async def _receive(self) -> None:
        try:
            while True:
                call, error, content = unpack(await self._channel.receive())
                answered = self._calls.get(call)
                if answered is not None and not answered.done():
                    answered.set_result((error, content))
        except (OSError, RuntimeError, ValueError):
            pass
        finally:
            self.close()

    async def _call(
        self, method: str, *arguments: Any, timeout_s: float | None = None, changes: bool = False
    ) -> Any:
        if self.closed or len(self._calls) >= MAX_CALLS:
            raise UnavailableError("There is no connection to the home of the hidden states")
        self._n_calls += 1
        call, frame = self._n_calls, pack(self._n_calls, method, arguments)
        if len(frame) > MAX_FRAME:
            raise UnavailableError(f"{len(frame)} bytes are too many for one call")
        answered = self._calls[call] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(frame)
            async with asyncio.timeout(timeout_s or CALL_TIMEOUT_S):
                error, content = await answered
        except (OSError, RuntimeError) as lost:  # a TimeoutError is an OSError
            self.close()
            if changes:
                raise OutcomeUnknownError from lost
            raise UnavailableError("The home of the hidden states does not answer") from lost
        finally:
            del self._calls[call]
        if error:
            raise _unpacked(error, content)
        return content

    async def read(self, names: Sequence[bytes]) -> Read:
        """Return the rows of different names, perhaps as this replica has last written them.

        Then the number is 0, and what is not written, which compares the versions, must be read
        again: :meth:`forget` lets the next call do that.
        """
        kept = self._kept
        if all(name in kept for name in names):
            return Read(0, self.form.of([kept[name] for name in names]))
        number, raws = await self._call("read", names)
        return Read(number, self.form.of(raws))

    async def forget(self, names: Sequence[bytes]) -> None:
        """Let these rows be read from the home the next time."""
        for name in names:
            self._kept.pop(name, None)

    async def get(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        rows: dict[bytes, bytes] = await self._call("get", names)
        return rows

    async def rows_of(self, run: str) -> dict[bytes, bytes]:
        rows: dict[bytes, bytes] = await self._call("rows_of", run, timeout_s=RUN_TIMEOUT_S)
        return rows

    async def list(self, after: bytes = b"", limit: int = 1000) -> list[Listed]:
        return [Listed(*row) for row in await self._call("list", after, limit)]

    async def operation(self, operation: Operation) -> Any:
        return await self._call("operation", operation)

    async def latest(self) -> int:
        number: int = await self._call("latest")
        return number

    async def write(
        self,
        names: Sequence[bytes],
        read: Read,
        which: Sequence[int] | None = None,
        aside: Mapping[int, tuple[bytes, bytes]] | None = None,
    ) -> Written:
        at, rows = range(len(names)) if which is None else which, read.rows
        some = [[each[place] for place in at] for each in (names, rows.versions, rows.raws)]
        left = {n: aside[place] for n, place in enumerate(at) if place in aside} if aside else {}
        written = await self._call("write", read.number, *some, left, changes=True)
        number, raced, refused, why = written
        lost = {at[n] for n in raced}, {at[n] for n in refused}
        await self.forget([names[place] for place in at])
        for place in at:
            if place not in lost[0] and place not in lost[1]:
                if rows.versions[place] == ABSENT:
                    rows.live(place, number)
                self._kept[names[place]] = bytes(rows.raws[place])
        while len(self._kept) > MAX_KEPT:  # the one that was written first
            del self._kept[next(iter(self._kept))]
        return Written(number, *lost, why and _unpacked(*why))  # type: ignore[arg-type]

    async def replace(
        self, operation: Operation, rows: Mapping[bytes, bytes], result: Any = None
    ) -> Any:
        request = "replace", operation, rows, result
        return await self._call(*request, timeout_s=RUN_TIMEOUT_S, changes=True)

    async def copied(self, number: int) -> None:
        """Return when a transaction is in the store.

        Raises:
            OutcomeUnknownError: that was not confirmed in time.
        """
        await self._call("copied", number, timeout_s=COPIED_TIMEOUT_S, changes=True)
