"""The table over a connection, for replicas that cannot map its file.

A message is a head, JSON, and the bytes of rows and versions as they are in the table. The names of
rows are one string, with line breaks between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import logging
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lmdb

from deployments.stateful.channel import Channel
from deployments.stateful.errors import (
    OutcomeUnknownError,
    StateError,
    TableFullError,
    TooManyStatesError,
    UnavailableError,
)
from deployments.stateful.row import ABSENT, VERSION_BYTES, RowForm, versions
from deployments.stateful.table import Listed, Operation, Read, Table, Written

logger = logging.getLogger("ray.serve")

MAX_FRAME = 256 << 20
MAX_CALLS = 1000
"""Calls of one connection that wait for their response."""
CALL_TIMEOUT_S = 2.0
RUN_TIMEOUT_S = 10.0
COPIED_TIMEOUT_S = 4.5  # the home has a shorter one

_HEAD = struct.Struct("<QI")  # number of the call, length of the JSON
_LONGEST_NAME, _MOST_LISTED = 511, 10_000  # the former is LMDB's
_ERRORS: dict[str, type[StateError]] = {
    each.__name__: each
    for each in (TooManyStatesError, TableFullError, UnavailableError, OutcomeUnknownError)
}

Aside = Mapping[int, tuple[bytes, bytes]]
Result = tuple[Any, Iterable[Any]]
"""The JSON of a message, and its bytes in pieces."""


def pack(call: int, content: Any, pieces: Iterable[Any] = ()) -> bytes:
    packed = json.dumps(content).encode()
    return b"".join((_HEAD.pack(call, len(packed)), packed, *pieces))


def unpack(frame: bytes) -> tuple[int, Any, memoryview]:
    """Return call, JSON and bytes of a message.

    Raises:
        ValueError: it is not one.
    """
    try:
        call, length = _HEAD.unpack_from(frame)
        end = _HEAD.size + length
        return call, json.loads(frame[_HEAD.size : end]), memoryview(frame)[end:]
    except (struct.error, RecursionError) as error:
        raise ValueError(f"not a message: {error}") from error


def _join(names: Iterable[bytes]) -> str:
    return b"\n".join(names).decode()


def _split(joined: str) -> list[bytes]:
    names = joined.encode().split(b"\n") if joined else []
    for name in names:
        # others belong to the table itself
        if not (b"\2" < name < b"\xff" and b"\0" in name and len(name) <= _LONGEST_NAME):
            raise ValueError(f"not the name of a row: {name[:80]!r}")
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice")
    return names


def _cut(rows: memoryview, names: Sequence[bytes], size: int) -> dict[bytes, bytes]:
    if len(rows) != len(names) * size:
        raise ValueError(f"{len(rows)} bytes are not {len(names)} rows")
    return {name: bytes(rows[at * size :][:size]) for at, name in enumerate(names)}


def _operation(kind: str, run: str, id: str | None) -> Operation:
    _split(f"{run}\0")
    if "\0" in run or "\n" in run:
        raise ValueError(f"not a run: {run[:80]!r}")
    return Operation(kind, run, id)


class TableServer:
    """The home's end of the connections.

    Args:
        copied: returns when the transaction of a number is in the store.

    Attributes:
        connections: number of open ones.
    """

    def __init__(self, table: Table, copied: Callable[[int], Awaitable[None]]) -> None:
        self.connections = 0
        self._table = table
        self._copied = copied
        # A transaction may wait for a process that was stopped in another one.
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="remote-writes")

    async def serve(self, channel: Channel) -> None:
        """Serve a connection, for a :class:`.channel.Listener`."""
        tasks: set[asyncio.Task[None]] = set()
        self.connections += 1
        try:
            while True:
                call, request, data = unpack(await channel.receive())
                work = self._work(request, data)
                tasks.add(task := asyncio.create_task(self._respond(channel, call, work)))
                task.add_done_callback(tasks.discard)
                if len(tasks) >= MAX_CALLS:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.connections -= 1

    async def _respond(self, channel: Channel, call: int, work: Awaitable[Result]) -> None:
        try:
            content, pieces = await work
            response = pack(call, [content], pieces)
        except (StateError, lmdb.Error) as error:
            known = error if isinstance(error, StateError) else UnavailableError(str(error))
            response = pack(call, _packed(known))
        except Exception:
            logger.exception("A call of the table of hidden states failed")
            response = pack(call, _packed(OutcomeUnknownError()))
        with contextlib.suppress(OSError, RuntimeError):  # it was closed; the latter of uvloop
            channel.send(response)
            await channel.drain()

    def _work(self, request: Any, data: memoryview) -> Awaitable[Result]:
        """Return what answers a request.

        Raises:
            ValueError: it is not a request.
        """
        table, size = self._table, self._table.form.size
        match request:
            case ["read", str(joined)]:
                return self._now(self._read, _split(joined))
            case ["get", str(joined)]:
                return self._now(self._rows, table.get, _split(joined))
            case ["rows_of", str(run)]:
                return self._now(self._rows, table.rows_of, _operation("", run, None).run)
            case ["list", str(after), int(limit)] if limit <= _MOST_LISTED:
                return self._now(self._list, after.encode(), limit)
            case ["operation", [str(kind), str(run), (str() | None) as id]]:
                operation = _operation(kind, run, id)
                return self._now(lambda: (table.operation(operation), ()))
            case ["counts" | "latest" as name]:
                return self._now(lambda: (getattr(table, name)(), ()))
            case ["write", int(number), str(joined), list(places), str(others)]:
                names = _split(joined)
                heads = len(names) * VERSION_BYTES
                rows = _cut(data[heads:][: len(names) * size], names, size)
                left = _cut(data[heads + len(names) * size :], _split(others), size)
                aside = dict(zip(places, left.items(), strict=True))
                if not aside.keys() <= set(range(len(names))):
                    raise ValueError("a place is wrong")
                at = range(0, heads, VERSION_BYTES)
                found = [bytes(data[each : each + VERSION_BYTES]) for each in at]
                raw = bytearray().join(rows.values())
                read = Read(number, table.form.rows(raw), found, raw)
                return self._in_turn(self._write, names, read, aside)
            case ["replace", [str(kind), str(run), (str() | None) as id], str(joined), result]:
                operation, rows = _operation(kind, run, id), _cut(data, _split(joined), size)
                if not all(name.startswith(f"{run}\0".encode()) for name in rows):
                    raise ValueError("a row is not of the run")
                return self._in_turn(lambda: (table.replace(operation, rows, result), ()))
            case ["copied", int(number)]:
                return self._when_copied(number)
        raise ValueError(f"not a request: {str(request)[:80]}")

    async def _now(self, read: Callable[..., Result], *arguments: Any) -> Result:
        self._table.page.require_valid()
        return read(*arguments)

    async def _in_turn(self, write: Callable[..., Result], *arguments: Any) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writing, write, *arguments)

    async def _when_copied(self, number: int) -> Result:
        await self._copied(number)
        return None, ()

    def _read(self, names: list[bytes]) -> Result:
        read = self._table.read(names)
        return read.number, (read.raw,)

    def _list(self, after: bytes, limit: int) -> Result:
        return [(name.decode(), *rest) for name, *rest in self._table.list(after, limit)], ()

    @staticmethod
    def _rows(read: Callable[[Any], dict[bytes, bytes]], argument: Any) -> Result:
        rows = read(argument)
        return _join(rows), rows.values()

    def _write(self, names: list[bytes], read: Read, aside: Aside) -> Result:
        number, raced, refused, why = self._table.write(names, read, None, aside)
        return [number, list(raced), list(refused), why and _packed(why)], ()


def _packed(error: StateError) -> dict[str, Any]:
    arguments = () if isinstance(error, OutcomeUnknownError) else error.args
    return {"error": type(error).__name__, "arguments": arguments}


def _unpacked(packed: Mapping[str, Any]) -> StateError:
    return _ERRORS[packed["error"]](*packed["arguments"])


class _RemoteRead(Read):
    table: RemoteTable


class RemoteTable:
    """A replica's end: has the methods of :class:`.table.Table`, as coroutines.

    It belongs to one connection. Once that is lost, every method raises UnavailableError. A method
    that changes the table raises OutcomeUnknownError if it was sent and not answered in time.
    """

    def __init__(self, channel: Channel, form: RowForm) -> None:
        self.form = form
        self.closed = False
        self._channel = channel
        self._calls: dict[int, asyncio.Future[tuple[Any, memoryview]]] = {}
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
                call, content, data = unpack(await self._channel.receive())
                answered = self._calls.get(call)
                if answered is not None and not answered.done():
                    answered.set_result((content, data))
        except (OSError, RuntimeError, ValueError):
            pass
        finally:
            self.close()

    async def _call(
        self,
        *request: Any,
        pieces: Iterable[Any] = (),
        timeout_s: float = CALL_TIMEOUT_S,
        changes: bool = False,
    ) -> tuple[Any, memoryview]:
        if self.closed or len(self._calls) >= MAX_CALLS:
            raise UnavailableError("There is no connection to the home of the hidden states")
        self._n_calls += 1
        call, frame = self._n_calls, pack(self._n_calls, request, pieces)
        if len(frame) > MAX_FRAME:
            raise UnavailableError(f"{len(frame)} bytes are too many for one call")
        answered = self._calls[call] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(frame)
            async with asyncio.timeout(timeout_s):
                content, data = await answered
        except (OSError, RuntimeError) as error:  # a TimeoutError is an OSError
            self.close()
            if changes:
                raise OutcomeUnknownError from error
            raise UnavailableError("The home of the hidden states does not answer") from error
        finally:
            del self._calls[call]
        if isinstance(content, dict):
            raise _unpacked(content)
        return content[0], data

    async def read(self, names: Sequence[bytes]) -> Read:
        number, data = await self._call("read", _join(names))
        rows = self.form.rows(raw := bytearray(data))
        read = _RemoteRead(number, rows, versions(rows), raw)
        read.table = self
        return read

    async def get(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        return _cut_joined(*await self._call("get", _join(names)), self.form.size)

    async def rows_of(self, run: str) -> dict[bytes, bytes]:
        answer = await self._call("rows_of", run, timeout_s=RUN_TIMEOUT_S)
        return _cut_joined(*answer, self.form.size)

    async def list(self, after: bytes = b"", limit: int = 1000) -> list[Listed]:
        listed, _ = await self._call("list", after.decode(), limit)
        return [Listed(name.encode(), *rest) for name, *rest in listed]

    async def operation(self, operation: Operation) -> Any:
        return (await self._call("operation", operation))[0]

    async def latest(self) -> int:
        number: int = (await self._call("latest"))[0]
        return number

    async def counts(self) -> tuple[int, int]:
        (n_states, limit), _ = await self._call("counts")
        return n_states, limit

    async def write(
        self,
        names: Sequence[bytes],
        read: Read,
        which: Sequence[int] | None = None,
        aside: Aside | None = None,
    ) -> Written:
        if getattr(read, "table", None) is not self:
            raise UnavailableError("The rows were read from another table")
        at = range(len(names)) if which is None else which
        if not at:
            return Written(0)
        rows = read.raw if which is None else read.rows[list(which)].tobytes()
        found = [read.versions[each] for each in at]
        left = {n: aside[each] for n, each in enumerate(at) if each in aside} if aside else {}
        others = _join(name for name, _ in left.values())
        request = "write", read.number, _join(names[each] for each in at), [*left], others
        pieces = (*found, rows, *(row for _, row in left.values()))
        content, _ = await self._call(*request, pieces=pieces, changes=True)
        number, raced, refused, why = content
        lost = {*raced, *refused}
        new = [at[n] for n, each in enumerate(found) if each == ABSENT and n not in lost]
        read.rows["life"][new] = number
        error: Any = why and _unpacked(why)
        return Written(number, {at[n] for n in raced}, {at[n] for n in refused}, error)

    async def end(self, operation: Operation, result: Any = None) -> Any:
        return await self.replace(operation, {}, result)

    async def replace(
        self, operation: Operation, rows: Mapping[bytes, bytes], result: Any = None
    ) -> Any:
        request, pieces = ("replace", operation, _join(rows), result), rows.values()
        answer = await self._call(*request, pieces=pieces, timeout_s=RUN_TIMEOUT_S, changes=True)
        return answer[0]

    async def copied(self, number: int) -> None:
        """Return when a transaction is in the store.

        Raises:
            OutcomeUnknownError: that was not confirmed in time.
        """
        await self._call("copied", number, timeout_s=COPIED_TIMEOUT_S, changes=True)


def _cut_joined(joined: str, rows: memoryview, size: int) -> dict[bytes, bytes]:
    return _cut(rows, _split(joined), size)
