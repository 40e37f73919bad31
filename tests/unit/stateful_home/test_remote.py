"""The table over a real connection: its errors, hostile frames, and what replicas keep.

That it answers as a table of this machine does is tested in tests/unit/states/test_contract.py.
"""

import asyncio
import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deployments.stateful.channel import Address, Channel, connect
from deployments.stateful.engine import Engine
from deployments.stateful.errors import (
    FolderError,
    KeyReusedError,
    NotBegunError,
    OutcomeUnknownError,
    StateError,
    TableFullError,
    UnavailableError,
)
from deployments.stateful.remote import RemoteTable, TableServer, pack
from deployments.stateful.row import Key
from deployments.stateful.shards import ForeignStatesError, OtherLayoutError
from deployments.stateful.table import Operation, Table
from deployments.stateful.term import SupersededError
from tests.support.local_states import LocalShard, open_table, stepped
from tests.unit.states.implementations import connected
from tests.unit.states.tape import FORM, Tape

A, B, C = b"run\0a", b"run\0b", "\u00fcber\0c".encode()


async def in_store(number: int) -> None:
    if number > 100:
        raise OutcomeUnknownError


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return open_table(tmp_path, FORM, max_states=3)


@pytest.fixture
async def served(table: Table) -> AsyncIterator[tuple[RemoteTable, Address]]:
    async with connected(TableServer(table, in_store).serve) as ([remote], address):
        yield remote, address


@pytest.fixture
def remote(served: tuple[RemoteTable, Address]) -> RemoteTable:
    return served[0]


async def test_a_copy_is_confirmed_and_pages_of_rows_are_those_of_the_table(table, remote):
    written = await remote.write([A, B, C], stepped(await remote.read([A, B, C])), [2, 0])
    assert tuple(written) == (table.latest(), set(), set(), None)
    assert await remote.latest() == table.latest()
    assert await remote.list(A, 1) == table.list(A, 1) != []
    await remote.copied(1)
    with pytest.raises(OutcomeUnknownError):
        await remote.copied(101)
    assert not remote.closed


async def test_nothing_is_answered_while_the_table_must_not_be_used(table, remote):
    read = await remote.read([A])
    table.page.valid_until = 0.0
    for call in (remote.read([A]), remote.write([A], read), remote.rows_of("run")):
        with pytest.raises(UnavailableError):
            await call


async def test_a_change_without_an_answer_may_have_been_made(table):
    async def silent(channel: Channel) -> None:
        await channel.receive()
        await channel.receive()  # and closes the connection

    async with connected(silent) as ([remote], _):
        change = asyncio.create_task(remote.replace(Operation("reset", "run"), {}))
        await asyncio.sleep(0.01)
        with pytest.raises(UnavailableError):
            await remote.latest()
        with pytest.raises(OutcomeUnknownError):
            await change
        with pytest.raises(UnavailableError):  # it is certain that this was not sent
            await remote.replace(Operation("reset", "run"), {})
        await remote.lost()


async def test_a_home_that_does_not_answer_in_time_is_lost(table, monkeypatch):
    monkeypatch.setattr("deployments.stateful.remote.CALL_TIMEOUT_S", 0.05)
    monkeypatch.setattr("deployments.stateful.remote.MAX_CALLS", 2)
    async with connected(lambda channel: asyncio.sleep(3)) as ([remote], _):
        calls = [asyncio.create_task(remote.latest()) for _ in range(3)]
        await asyncio.wait(calls)
        assert all(isinstance(call.exception(), UnavailableError) for call in calls)
        assert "no connection" in str(calls[2].exception())  # one too many
        assert remote.closed


HOSTILE = {
    "not MessagePack": b"\xc1",
    "a length beyond the end": b"\xdd\xff\xff\xff\xff",
    "deep": b"\x91" * 100_000,
    "not a call": pack(1, "read"),
}
WRONG: dict[str, Any] = {
    "an unknown method": ("close",),
    "a private method": ("_write", 1),
    "no arguments": ("read",),
    "a row too little": ("write", 0, [A, B], [bytes(24)], [bytes(FORM.size)], {}),
    "a row that is too short": ("write", 0, [A], [bytes(24)], [b"short"], {}),
    "an import of another form": ("replace", ["import", "run", None], {A: b"short"}, None),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_frame_that_is_no_message_ends_the_connection(table, served, name, caplog):
    remote, address = served
    before = table.latest()
    channel = await connect(address)
    channel.send(HOSTILE[name])
    with pytest.raises(ConnectionResetError):
        await channel.receive()
    channel.close()
    assert table.latest() == before
    assert "A connection for hidden states is closed" in caplog.text
    assert await remote.list() == []  # others go on


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_call_changes_nothing(table, remote, name, caplog):
    before = table.latest()
    with pytest.raises((UnavailableError, OutcomeUnknownError)):
        await remote._call(*WRONG[name])
    assert table.latest() == before
    assert await remote.list() == []


async def test_bytes_that_are_no_answer_ends_the_connection(table):
    async def liar(channel: Channel) -> None:
        await channel.receive()
        channel.send(b"?")
        await asyncio.sleep(1)

    async with connected(liar) as ([remote], _):
        with pytest.raises(UnavailableError):
            await remote.latest()
        assert remote.closed


async def test_a_replica_keeps_what_it_wrote_so_that_a_turn_is_one_round_trip(
    table, remote, monkeypatch
):
    model, key = Tape(), Key("run", "a")
    calls, call = list[str](), remote._call

    async def noted(method: str, *arguments: Any, **named: Any) -> Any:
        calls.append(method)
        return await call(method, *arguments, **named)

    monkeypatch.setattr(remote, "_call", noted)
    far = Engine([LocalShard(remote)], FORM).batcher(lambda: model)
    near = Engine([LocalShard(table)], FORM).batcher(lambda: model)
    assert (await far.submit(key, 1, "first", 1)).step == 1
    assert (await far.submit(key, 2)).step == 2
    assert calls == ["read", "write", "write"]
    await near.submit(key, 3)
    assert (await far.submit(key, 4)).step == 4
    assert calls[3:] == ["write", "read", "write"]
    assert (await far.submit(key, 1, "first", 1)).step == 1
    assert calls[6:] == ["read"], "what is not written is read"


async def test_a_replica_keeps_a_bounded_number_of_rows(table, remote, monkeypatch):
    monkeypatch.setattr("deployments.stateful.remote.MAX_KEPT", 2)
    for name in (A, B, C):
        await remote.write([name], stepped(await remote.read([name])))
    assert list(remote._kept) == [B, C]
    assert (await remote.read([B])).number == 0
    await remote.forget([B])
    assert (await remote.read([B])).number


@pytest.mark.parametrize(
    "error",
    [
        *(OutcomeUnknownError(), SupersededError(), KeyReusedError(), NotBegunError()),
        *(TableFullError(3), FolderError(Path("/states"), "it is full"), UnavailableError("no")),
        *(ForeignStatesError("5 of another network"), OtherLayoutError()),
    ],
)
def test_an_error_is_the_same_in_another_process(error: StateError):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert str(error)
