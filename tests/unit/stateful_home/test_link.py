"""Which table a replica uses, while homes come and go."""

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deployments.stateful.actor import Description
from deployments.stateful.channel import Address, Channel, listen
from deployments.stateful.errors import OutcomeUnknownError, UnavailableError
from deployments.stateful.files import OwnedFiles
from deployments.stateful.link import Shard
from deployments.stateful.remote import RemoteTable, TableServer
from deployments.stateful.shards import OtherLayoutError
from deployments.stateful.table import Table
from tests.support.local_states import open_table
from tests.support.waiting import until_async
from tests.unit.states.tape import FORM


class FakeHome:
    """A home that answers with a table of its own."""

    def __init__(self, folder: Path) -> None:
        own = folder / "far"
        own.mkdir()
        self.table = open_table(own, FORM, 10)
        self.folder = folder / "base" / "app" / "0-of-1"
        (folder / "base").mkdir(mode=0o700)
        self.nonce = self.begin_anew()
        self.error: Exception | None = None
        self.in_store = 0
        self.channels: list[Channel] = []
        self.address: Any = None

    def begin_anew(self) -> str:
        files = OwnedFiles(self.folder, FORM, "", 10)
        files.begin_anew()
        files.table.page.valid_until = math.inf
        files.table.set_limit(10)
        self.nonce = files.form.nonce
        files.close()
        return self.nonce

    async def serve(self, channel: Channel) -> None:
        self.channels.append(channel)
        await TableServer(self.table, self.copied).serve(channel)

    async def copied(self, number: int) -> None:
        while number > self.in_store:
            await asyncio.sleep(0.01)

    async def describe(self) -> Description:
        if self.address is None:
            self.address, self.server = await listen("127.0.0.1", self.serve)
        if self.error is not None:
            raise self.error
        return Description(str(self.folder), self.nonce, self.address)

    async def disconnect(self) -> None:
        await asyncio.sleep(0.05)
        for channel in self.channels:
            channel.close()
        self.channels.clear()
        await asyncio.sleep(0.05)


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeHome]:
    monkeypatch.setattr("deployments.stateful.link.LONGEST_USE_S", 0.2)
    home = FakeHome(tmp_path)
    yield home
    await home.disconnect()
    if home.address is not None:
        home.server.close()


@pytest.fixture
async def shard(home: FakeHome) -> AsyncIterator[Shard]:
    """Return a shard that is connected to the home."""
    shard = Shard(home.describe, FORM)
    await shard.connect()
    yield shard
    await shard.close()


async def test_a_table_of_this_machine_is_mapped_and_goes_on_without_its_home(home):
    shard = Shard(home.describe, FORM)
    home.error = UnavailableError("not yet")
    with pytest.raises(UnavailableError):
        await shard.connect()
    home.error = None
    await shard.connect()
    table = shard.table
    assert isinstance(table, Table)
    home.error = RuntimeError("Ray is away")
    await home.disconnect()
    assert not shard.connected
    read = table.read([b"run\0a"])
    assert table.write([b"run\0a"], read).number
    home.error = None
    await until_async(lambda: shard.connected)
    assert shard.table is table
    await shard.close()


async def test_another_table_is_used_from_the_moment_that_it_is_there(home, shard):
    first = shard.table
    home.nonce = "of another machine"
    await home.disconnect()
    await until_async(lambda: shard.table is not first)
    second: Any = shard.table
    assert isinstance(second, RemoteTable)
    assert await second.latest() == home.table.latest()
    with pytest.raises(OutcomeUnknownError):  # what it has may have been lost
        await shard.copied(first, 0)
    await home.disconnect()
    await until_async(lambda: shard.connected and shard.table is not second)
    assert isinstance(shard.table, RemoteTable)
    await asyncio.sleep(0.4)  # the first one is closed meanwhile
    home.begin_anew()
    await home.disconnect()
    await until_async(lambda: isinstance(shard.table, Table))
    third, nonce = shard.table, home.nonce
    home.nonce = "of another machine"
    await home.disconnect()
    await until_async(lambda: shard.table is not third)
    home.nonce = nonce  # and back, while the third one is still open
    await home.disconnect()
    await until_async(lambda: isinstance(shard.table, Table))
    assert shard.table is not third


async def test_a_confirmation_outlives_the_connection_and_not_the_table(home, shard):
    table: Any = shard.table
    table.page.copied = 5
    await shard.copied(table, 5)
    waiting = asyncio.create_task(shard.copied(table, 7))
    await asyncio.sleep(0.05)
    await home.disconnect()
    await asyncio.sleep(0.2)
    assert not waiting.done()
    home.in_store = 7
    await waiting
    waiting = asyncio.create_task(shard.copied(table, 9))
    home.nonce = "another"
    await home.disconnect()
    with pytest.raises(OutcomeUnknownError):
        await waiting


async def test_a_replica_of_an_earlier_layout_looks_no_further(home, shard, caplog):
    home.error = OtherLayoutError()
    await home.disconnect()
    await until_async(lambda: "cannot use the hidden states any more" in caplog.text)
    home.error = None
    await asyncio.sleep(0.3)
    assert not shard.connected


async def test_a_home_that_cannot_be_reached_is_unavailable(home):
    async def elsewhere() -> Description:
        return Description("", "", Address("127.0.0.1", 1, bytes(32)))

    with pytest.raises(UnavailableError, match="Cannot connect"):
        await Shard(elsewhere, FORM).connect()
