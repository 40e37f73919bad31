"""Connections that begin with a token: who may connect, and what ends them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from deployments.stateful.ray.channel import Address, Channel, Listener, connect

MAX_FRAME = 1000


async def echo(channel: Channel) -> None:
    while True:
        channel.send(await channel.receive())
        await channel.drain()


@asynccontextmanager
async def listening() -> AsyncIterator[Address]:
    listener = Listener(echo, MAX_FRAME, "echoes")
    before = asyncio.all_tasks()
    yield await listener.start("127.0.0.1")
    listener.close()
    if open_ones := asyncio.all_tasks() - before - {asyncio.current_task()}:
        await asyncio.wait(open_ones, timeout=5)


async def test_payloads_arrive_whole_and_in_order():
    async with listening() as address:
        channel = await connect(address, MAX_FRAME)
        payloads = [b"", b"x" * MAX_FRAME, b"last"]
        for payload in payloads:
            channel.send(payload)
        assert [await channel.receive() for _ in payloads] == payloads
        channel.close()


async def test_who_does_not_know_the_token_is_not_served():
    async with listening() as address:
        channel = await connect(address._replace(token=bytes(32)), MAX_FRAME)
        channel.send(b"hello")
        with pytest.raises(ConnectionResetError):
            await channel.receive()
        channel.close()


@pytest.mark.parametrize("theirs", [True, False])
async def test_a_frame_that_is_too_long_ends_the_connection_at_whichever_end(theirs):
    async with listening() as address:
        channel = await connect(address, MAX_FRAME if theirs else 10)
        channel.send(bytes(MAX_FRAME + 1 if theirs else 11))
        with pytest.raises(ConnectionResetError if theirs else ValueError):
            await channel.receive()
        channel.close()


async def test_a_machine_that_is_gone_is_noticed_by_the_kernel():
    async with listening() as address:
        _, writer = await asyncio.open_connection(address.host, address.port)
        Channel(asyncio.StreamReader(), writer, MAX_FRAME)
        own = writer.get_extra_info("socket")
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 10
        writer.close()


async def test_what_waits_for_who_does_not_read_is_known_and_can_be_dropped():
    stuck = asyncio.Event()

    async def read_nothing(channel: Channel) -> None:
        await stuck.wait()

    listener = Listener(read_nothing, MAX_FRAME, "nothing")
    channel = await connect(await listener.start("127.0.0.1"), MAX_FRAME)
    async with asyncio.timeout(10):
        while not channel.waiting:
            channel.send(bytes(1 << 20))
            await asyncio.sleep(0)
    channel.abort()
    with contextlib.suppress(OSError):
        await channel.receive()
    assert channel.waiting == 0
    stuck.set()
    await asyncio.sleep(0)
    listener.close()
