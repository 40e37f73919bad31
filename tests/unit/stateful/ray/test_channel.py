"""Connections that begin with a token: who may connect, and what ends them."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import AbstractAsyncContextManager

import pytest

from deployments.stateful.ray.channel import Address, Channel, Listener, connect
from tests.unit.stateful.ray.serving import serving

MAX_FRAME = 1000


async def echo(channel: Channel) -> None:
    while True:
        channel.send(await channel.receive())
        await channel.drain()


def listening() -> AbstractAsyncContextManager[Address]:
    return serving(Listener(echo, MAX_FRAME, "echoes"))


async def test_payloads_arrive_whole_and_in_order():
    async with listening() as address:
        channel = await connect(address, MAX_FRAME)
        payloads = [b"", b"x" * MAX_FRAME, b"last"]
        for payload in payloads:
            channel.send(payload)
        assert [await channel.receive() for _ in payloads] == payloads
        channel.close()


async def test_a_client_without_the_token_is_not_served():
    async with listening() as address:
        channel = await connect(address._replace(token=bytes(32)), MAX_FRAME)
        channel.send(b"hello")
        with pytest.raises(ConnectionResetError):
            await channel.receive()
        channel.close()


async def test_a_connection_that_the_client_resets_ends_without_an_error():
    async with listening() as address:  # which fails if a connection ends with an error
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(address.token + bytes(4))
        assert await reader.readexactly(4) == bytes(4)
        linger = struct.pack("ii", 1, 0)  # closing resets the connection
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()


@pytest.mark.parametrize("theirs", [True, False])
async def test_a_frame_that_is_too_long_ends_the_connection_at_whichever_end(theirs, caplog):
    async with listening() as address:
        channel = await connect(address, MAX_FRAME if theirs else 10)
        channel.send(bytes(MAX_FRAME + 1 if theirs else 11))
        with pytest.raises(ConnectionResetError if theirs else ValueError):
            await channel.receive()
        channel.close()
    assert ("A connection for echoes is closed" in caplog.text) == theirs


async def test_keepalive_probes_detect_a_lost_machine():
    async with listening() as address:
        _, writer = await asyncio.open_connection(address.host, address.port)
        Channel(asyncio.StreamReader(), writer, MAX_FRAME)
        own = writer.get_extra_info("socket")
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 10
        writer.close()
