"""TCP connections between the processes of a cluster, for frequent messages.

A Ray actor call costs both sides milliseconds of CPU time. So an actor listens on a port of its
node, and returns the port and a random token from an actor call: only a process that may call the
actor can connect. A frame is a length (4 bytes, big endian) and a payload.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple

logger = logging.getLogger("ray.serve")

MAX_FRAME = 256 << 20
"""Bytes of the longest payload."""
TOKEN_BYTES = 32
HELLO_TIMEOUT_S = 5.0

_LENGTH = struct.Struct(">I")
_KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}


class Address(NamedTuple):
    """Where an actor listens, and the token that a connection begins with."""

    host: str
    port: int
    token: bytes


class Channel:
    """One end of a connection. Keepalive probes find out when the other end's machine is down."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        own: socket.socket = writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            own.setsockopt(socket.IPPROTO_TCP, option, value)

    def send(self, payload: bytes) -> None:
        """Send a payload without waiting."""
        self._writer.write(_LENGTH.pack(len(payload)) + payload)

    async def drain(self) -> None:
        """Wait while the write buffer is full."""
        await self._writer.drain()

    async def receive(self) -> bytes:
        """Return the next payload.

        Raises:
            OSError: the connection is lost.
            ValueError: the frame is too long.
        """
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > MAX_FRAME:
                raise ValueError(f"a frame of {length} bytes")
            return await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError(str(error)) from error

    def close(self) -> None:
        """Close the connection after the payloads that were sent."""
        self._writer.close()


async def connect(address: Address) -> Channel:
    """Connect to an actor.

    Raises:
        OSError: the address cannot be reached.
    """
    async with asyncio.timeout(HELLO_TIMEOUT_S):  # a TimeoutError is an OSError
        reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(address.token)
    return Channel(reader, writer)


async def listen(
    host: str, serve: Callable[[Channel], Awaitable[None]]
) -> tuple[Address, asyncio.Server]:
    """Listen on a free port, and serve each connection that begins with the token.

    Args:
        serve: handles a connection. It is closed when this returns, or raises an error of
            :meth:`Channel.receive`.
    """
    own = secrets.token_bytes(TOKEN_BYTES)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                token = await reader.readexactly(TOKEN_BYTES)
            if hmac.compare_digest(token, own):
                await serve(Channel(reader, writer))
        except (asyncio.IncompleteReadError, OSError):
            pass  # the other end closed it, or is not one of our processes
        except ValueError as error:
            logger.error("A connection for hidden states is closed: %s", error)
        finally:
            writer.close()

    server = await asyncio.start_server(accept, host, 0)
    return Address(host, server.sockets[0].getsockname()[1], own), server
