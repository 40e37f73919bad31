"""How a replica uses the tables: mapped, or over a connection, and another one after a failover."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ray.exceptions import RayError, RayTaskError

from deployments.aio import BackgroundTasks
from deployments.log import Outages
from deployments.stateful.actor import ActorConfig, Description, OpenStore
from deployments.stateful.channel import connect
from deployments.stateful.cluster import has_ended
from deployments.stateful.errors import OutcomeUnknownError, StateError, UnavailableError
from deployments.stateful.files import attach
from deployments.stateful.options import StateOptions
from deployments.stateful.remote import RemoteTable
from deployments.stateful.row import RowForm
from deployments.stateful.shards import (
    ForeignStatesError,
    Layout,
    OtherLayoutError,
    agree_on_layout,
    table_of,
)
from deployments.stateful.table import Table
from deployments.stateful.watchdog import Watchdog
from deployments.store import Store, StoreUnavailable

logger = logging.getLogger("ray.serve")

CONNECT_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 5.0
COPIED_TIMEOUT_S = 4.0
LONGEST_USE_S = 5.0
"""Longest use of a table by a call that began before there was another one."""
_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 0.5


class Shard:
    """Implements :class:`.batcher.Shard`.

    A table of this machine is mapped, and goes on without its home; any other is used over the
    connection. When the connection is lost, the home is found again, and may have another table.

    Args:
        describe: finds the home, and asks it where its table is.
    """

    def __init__(self, describe: Callable[[], Awaitable[Description]], form: RowForm) -> None:
        self._describe = describe
        self._form = form
        self._told: Description | None = None
        self._local: tuple[Table, Watchdog] | None = None
        self._remote: RemoteTable | None = None
        self._outages = Outages("The home of a shard of hidden states")
        self._background = BackgroundTasks()

    @property
    def table(self) -> Table | RemoteTable:
        """The present table. One call must use the same one for all that it does."""
        if self._local is not None:
            return self._local[0]
        assert self._remote is not None, "a shard is used once it is connected"
        return self._remote

    @property
    def connected(self) -> bool:
        return self._remote is not None and not self._remote.closed

    async def connect(self) -> None:
        """Connect, and from then on whenever the connection is lost.

        Raises:
            StateError, StoreUnavailable: the home does not answer; it can be called again.
        """
        await self._connect()
        self._background.spawn(self._keep())

    async def _connect(self) -> None:
        told = await self._describe()
        try:
            channel = await connect(told.address)
        except OSError as error:
            raise UnavailableError(f"Cannot connect to {told.address[:2]}: {error}") from error
        self._remote = RemoteTable(channel, self._form)
        if self._told is not None and told.nonce == self._told.nonce:
            return
        before, self._local, self._told = self._local, None, told
        if before is None:
            await self._attach()
        else:
            self._background.spawn(self._exchange(*before))

    async def _exchange(self, table: Table, watchdog: Watchdog) -> None:
        await asyncio.sleep(LONGEST_USE_S)
        await _close(table, watchdog)
        await self._attach()  # not earlier: a process maps one table in a folder

    async def _attach(self) -> None:
        told = self._told
        if told is None or self._local is not None:
            return
        folder = Path(told.folder)
        table = await asyncio.to_thread(attach, folder, told.nonce, self._form)
        if table is not None and told is self._told:
            table.counts()  # from now on the table knows this process
            self._local = table, Watchdog(table, folder / "table-lock")

    async def _keep(self) -> None:
        pause_s = _PAUSE_S
        while self._remote is not None:
            await self._remote.lost()
            try:
                await self._connect()
            except OtherLayoutError as error:  # another version of this replica is to replace it
                logger.error("This replica cannot use the hidden states any more: %s", error)
                return
            except Exception as error:  # a defect, too, must not end the search
                self._outages.failed(error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                self._outages.served()
                pause_s = _PAUSE_S

    async def copied(self, table: Table | RemoteTable, number: int) -> None:
        """Return when a transaction of a table is in the store.

        Raises:
            OutcomeUnknownError: that was not confirmed in time.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COPIED_TIMEOUT_S):
                while table is self.table:
                    if isinstance(table, Table) and table.page.copied >= number:
                        return None
                    with contextlib.suppress(StateError):
                        if self._remote is not None:
                            return await self._remote.copied(number)
                    await asyncio.sleep(_PAUSE_S)
        raise OutcomeUnknownError

    async def close(self) -> None:
        self._background.cancel()
        if self._remote is not None:
            self._remote.close()
        if self._local is not None:
            await _close(*self._local)


async def _close(table: Table, watchdog: Watchdog) -> None:
    await asyncio.to_thread(watchdog.stop)
    table.close()


async def connect_tables(
    options: StateOptions,
    form: RowForm,
    tag: str,
    open_store: OpenStore,
    store: Store,
    app: str,
    json_lines: bool = False,
) -> list[Shard]:
    """Connect this replica to the homes of all shards, and create those that are missing.

    Args:
        open_store, store: the store, for a state actor and as this replica has opened it.

    Raises:
        ForeignStatesError, UnavailableError: as :meth:`.engine.Engine.connect` says.
    """
    layout = Layout(options.shards, tag, str(form))
    config = ActorConfig(app, options, layout, form, store.identity, open_store, json_lines)

    async def describe(shard: int) -> Description:
        actor = await asyncio.to_thread(config.find_or_create, shard)
        told: Description = await _call(actor.describe, options)
        return told

    async def dismiss(present: Layout, shard: int, leaves: bool) -> None:
        actor = await asyncio.to_thread(replace(config, layout=present).find, shard)
        if actor is not None:
            await _call(actor.give_up, leaves)

    agree = partial(agree_on_layout, store, table_of(app), layout, dismiss, has_ended)
    shards = [Shard(partial(describe, shard), form) for shard in range(options.shards)]
    await _patiently(agree)
    await asyncio.gather(*(_patiently(shard.connect) for shard in shards))
    return shards


async def _patiently(attempt: Callable[[], Awaitable[None]]) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + CONNECT_TIMEOUT_S
    while True:
        try:
            return await attempt()
        except ForeignStatesError:
            raise
        except (StateError, StoreUnavailable) as error:
            if clock() > until:
                raise UnavailableError(str(error)) from error
            await asyncio.sleep(_LONGEST_PAUSE_S)


async def _call(method: Any, *arguments: Any) -> Any:
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await method.remote(*arguments)
    except RayTaskError as error:
        if isinstance(error.cause, StateError | StoreUnavailable):  # without Ray's traceback
            raise error.cause from None
        raise
    except (RayError, TimeoutError) as error:
        raise UnavailableError(str(error).split("\n")[0] or "A home does not answer") from error
