"""The table over a real connection: the same answers, certain errors, and hostile frames."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments.stateful.channel import Address, Channel, connect, listen
from deployments.stateful.engine import Engine
from deployments.stateful.errors import OutcomeUnknownError, TooManyStatesError, UnavailableError
from deployments.stateful.remote import RemoteTable, TableServer, pack
from deployments.stateful.row import Key, RowForm
from deployments.stateful.table import Operation, Table
from tests.support.local_states import LocalShard, open_table, stepped
from tests.unit.states import tape

FORM = RowForm(np.dtype("f4"), np.dtype([("action", "u1")]))
A, B, C = b"run\0a", b"run\0b", "\u00fcber\0c".encode()


async def in_store(number: int) -> None:
    if number > 100:
        raise OutcomeUnknownError


@asynccontextmanager
async def far(
    serve: Callable[[Channel], Awaitable[None]], form: RowForm = FORM
) -> AsyncIterator[tuple[RemoteTable, Address]]:
    address, server = await listen("127.0.0.1", serve)
    remote = RemoteTable(await connect(address), form)
    yield remote, address
    remote.close()
    server.close()
    await asyncio.sleep(0.01)


def served(
    table: Table, form: RowForm = FORM
) -> AbstractAsyncContextManager[tuple[RemoteTable, Address]]:
    return far(TableServer(table, in_store).serve, form)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return open_table(tmp_path, FORM, max_states=3)


async def test_it_answers_as_the_table_does(table):
    async with served(table) as (remote, _):
        read = await remote.read([A, B, C])
        assert read.rows.versions == [bytes(24)] * 3
        stepped(read)
        written = await remote.write([A, B, C], read, [2, 0])
        assert tuple(written) == (table.latest(), set(), set(), None)
        assert table.get([A, B, C]) == await remote.get([A, B, C])
        assert list(table.get([A, B, C])) == [A, C]
        assert await remote.rows_of("run") == table.rows_of("run") != {}
        assert await remote.list() == table.list()
        assert await remote.list(A, 1) == table.list(A, 1)
        assert await remote.latest() == table.latest()

        stale = stepped(await remote.read([A, B]))
        assert (await remote.write([A], await remote.read([A]))).number
        table.write([A], stepped(table.read([A])))
        raced = await remote.write(
            [A, B], stale, [1, 0], {1: (B + b"\0" + b"0" * 8, bytes(FORM.size))}
        )
        assert (raced.raced, raced.refused, type(raced.why)) == ({0}, {1}, TooManyStatesError)

        end = Operation("reset", "run", "key")
        assert await remote.operation(end) is None
        assert await remote.replace(end, {}, {"done": [1]}) == {"done": [1]}
        assert (
            await remote.replace(end, {}, "another") == await remote.operation(end) == {"done": [1]}
        )
        rows = {f"run\0{n}".encode(): bytes(FORM.size) for n in range(4)}
        with pytest.raises(TooManyStatesError):
            await remote.replace(Operation("import", "run"), rows)
        await remote.copied(1)
        with pytest.raises(OutcomeUnknownError):
            await remote.copied(101)
        assert not remote.closed


async def test_nothing_is_answered_while_the_table_must_not_be_used(table):
    async with served(table) as (remote, _):
        read = await remote.read([A])
        table.page.valid_until = 0.0
        for call in (remote.read([A]), remote.write([A], read), remote.rows_of("run")):
            with pytest.raises(UnavailableError):
                await call


async def test_a_change_without_an_answer_may_have_been_made(table):
    async def silent(channel: Channel) -> None:
        await channel.receive()
        await channel.receive()  # and closes the connection

    async with far(silent) as (remote, _):
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
    async with far(lambda channel: asyncio.sleep(3)) as (remote, _):
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
async def test_a_frame_that_is_no_message_ends_the_connection(table, name, caplog):
    async with served(table) as (remote, address):
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
async def test_a_wrong_call_changes_nothing(table, name, caplog):
    async with served(table) as (remote, _):
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

    async with far(liar) as (remote, _):
        with pytest.raises(UnavailableError):
            await remote.latest()
        assert remote.closed


async def test_a_replica_keeps_what_it_wrote_and_is_exact_beside_others(tmp_path, monkeypatch):
    table, model, key = open_table(tmp_path, tape.FORM), tape.Tape(), Key("run", "a")
    async with served(table, tape.FORM) as (remote, _):
        calls, call = list[str](), remote._call

        async def noted(method: str, *arguments: Any, **named: Any) -> Any:
            calls.append(method)
            return await call(method, *arguments, **named)

        monkeypatch.setattr(remote, "_call", noted)
        far = Engine([LocalShard(remote)], tape.FORM).batcher(lambda: model)  # type: ignore[arg-type]
        near = Engine([LocalShard(table)], tape.FORM).batcher(lambda: model)
        assert (await far.submit(key, 1, "first", 1)).step == 1
        assert (await far.submit(key, 2)).step == 2
        assert calls == ["read", "write", "write"]
        assert (await near.submit(key, 3)).step == 3
        fourth = await far.submit(key, 4)
        assert (fourth.output[-4:], fourth.step) == ((1, 2, 3, 4), 4)
        assert calls[3:] == ["write", "read", "write"]
        assert (await far.submit(key, 1, "first", 1)).step == 1
        assert calls[6:] == ["read"], "what is not written is read"
        await Engine([LocalShard(table)], tape.FORM).reset("run")
        assert (await far.submit(key, 1, "first", 1)).step == 1
        assert (await near.submit(key, 5)).step == 2
        table.page.valid_until = 0.0
        with pytest.raises(UnavailableError):
            await remote.write([A], await remote.read([A]))
    table.close()


async def test_a_replica_keeps_a_bounded_number_of_rows(table, monkeypatch):
    monkeypatch.setattr("deployments.stateful.remote.MAX_KEPT", 2)
    async with served(table) as (remote, _):
        for name in (A, B, C):
            await remote.write([name], stepped(await remote.read([name])))
        assert list(remote._kept) == [B, C]
        assert (await remote.read([B])).number == 0
        await remote.forget([B])
        assert (await remote.read([B])).number
