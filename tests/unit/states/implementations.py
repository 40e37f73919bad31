"""The implementations of the table that keep one contract."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from deployments.stateful.batcher import Shard
from deployments.stateful.channel import Address, Channel, connect, listen
from deployments.stateful.remote import RemoteTable, TableServer
from deployments.stateful.table import Table
from tests.support.local_states import LocalShard, open_table
from tests.unit.states.tape import FORM


class States(NamedTuple):
    """The states of an application.

    Attributes:
        tables: of the shards, as their homes have them.
        connect: returns the shards for one more replica.
    """

    tables: Sequence[Table]
    connect: Callable[[], Sequence[Shard]]
    durable: bool = False


Implementation = Callable[[Path, int], AbstractAsyncContextManager[States]]
"""Opens the states in a folder, with a limit on their number in each shard."""


def local(n_shards: int) -> Implementation:
    """Return tables that the replicas map."""

    @asynccontextmanager
    async def opened(folder: Path, limit: int) -> AsyncIterator[States]:
        folders = [folder / f"{shard}" for shard in range(n_shards)]
        for each in folders:
            each.mkdir()
        tables = [open_table(each, FORM, limit) for each in folders]
        yield States(tables, lambda: [LocalShard(table) for table in tables])
        for table in tables:
            table.close()

    return opened


@asynccontextmanager
async def connected(
    serve: Callable[[Channel], Awaitable[None]], n: int = 1
) -> AsyncIterator[tuple[list[RemoteTable], Address]]:
    """Open n connections to what serves them."""
    address, server = await listen("127.0.0.1", serve)
    tables = [RemoteTable(await connect(address), FORM) for _ in range(n)]
    yield tables, address
    for table in tables:
        table.close()
    server.close()
    await asyncio.sleep(0.01)


@asynccontextmanager
async def remote(folder: Path, limit: int) -> AsyncIterator[States]:
    """Open a table that three replicas use over connections."""
    table = open_table(folder, FORM, limit)
    async with connected(TableServer(table, asyncio.sleep).serve, 3) as (tables, _):
        in_turn = cycle(tables)
        yield States([table], lambda: [LocalShard(next(in_turn))], durable=True)
    table.close()


IMPLEMENTATIONS: dict[str, Implementation] = {
    "one shard": local(1),
    "three shards": local(3),
    "over a connection": remote,
}


class Pause:
    """Lets another replica act between the reads of a turn and its first write.

    Args:
        connect: returns the other replica, in its event loop.

    Attributes:
        act: what the other replica does.
        seen: names that were read before that.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect
        self.act: Callable[[Any], Awaitable[None]] | None = None
        self.seen: set[bytes] = set()

    async def take(self) -> None:
        act, self.act = self.act, None
        if act is not None:
            await act(self.connect())

    def take_in_thread(self) -> None:
        """Act while the event loop is at the turn, as another process would."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self.take()).result()


class Interrupted:
    """A table with such pauses."""

    def __init__(self, table: Any, pause: Pause) -> None:
        self._table = table
        self._pause = pause

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def read(self, names: Sequence[bytes]) -> Any:
        if self._pause.act is not None:
            self._pause.seen.update(names)
        return self._table.read(names)

    def write(self, *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(self._table.write):
            return self._write_later(arguments)
        if self._pause.act is not None:
            self._pause.take_in_thread()
        return self._table.write(*arguments)

    async def _write_later(self, arguments: Sequence[Any]) -> Any:
        await self._pause.take()
        return await self._table.write(*arguments)


class InterruptedShard:
    """A shard with such a table."""

    connected = True

    def __init__(self, shard: Shard, pause: Pause) -> None:
        self._shard = shard
        self.table = Interrupted(shard.table, pause)

    async def copied(self, table: Any, number: int) -> None:
        await self._shard.copied(self._shard.table, number)

    async def close(self) -> None:
        await self._shard.close()
