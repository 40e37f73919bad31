"""Commits over a socket of their own: the one call that is made all the time.

A commit follows every few milliseconds of steps, and as a Ray actor call it costs both sides more
than the steps themselves. So the actor listens on a TCP port of its node, and each replica keeps a
connection to it. The port and a random token are told by an actor call, so only who may call the
actor may commit. Everything else stays with actor calls.

Frames are a length (4 bytes, big endian) and a payload. A commit's payload is the length of a JSON
header, the header, and the packed states; an answer's payload is JSON.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import struct
from typing import NamedTuple

from deployments.inference.protocol import (
    Authority,
    AuthorityUnavailableError,
    Key,
    StaleSessionError,
    StateBatch,
)

logger = logging.getLogger("ray.serve")

TOKEN_BYTES = 32
MAX_FRAME = 256 << 20
HELLO_TIMEOUT_S = 5.0

_LENGTH = struct.Struct(">I")


class ChannelAddress(NamedTuple):
    host: str
    port: int
    token: bytes


def encode_commit(session: int, states: StateBatch, released: list[Key], call: int) -> bytes:
    header = json.dumps([session, released, call]).encode()
    return b"".join((_LENGTH.pack(len(header)), header, states.pack()))


def decode_commit(payload: bytes) -> tuple[int, StateBatch, list[Key], int]:
    """Return the arguments of :meth:`~deployments.inference.protocol.Authority.commit`.

    Raises:
        ValueError: not a commit.
    """
    try:
        start = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
        session, released, call = json.loads(payload[_LENGTH.size : start])
        states = StateBatch.unpack(memoryview(payload)[start:])
        return session, states, [Key(*key) for key in released], call
    except (struct.error, TypeError) as error:
        raise ValueError(f"not a commit: {error}") from error


class CommitServer:
    """The authority's end, in the actor's event loop."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> ChannelAddress:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return ChannelAddress(host, port, self._token)

    def close(self) -> None:
        """Take no new connections; those that are open end with their replicas."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                token = await reader.readexactly(TOKEN_BYTES)
            while hmac.compare_digest(token, self._token):
                _send(writer, await self._answer(await _receive(reader)))
                await writer.drain()
        except (asyncio.IncompleteReadError, TimeoutError, OSError):
            pass  # the replica has gone, or it was not a replica
        except ValueError as error:
            logger.error("A connection for commits is closed: %s", error)
        finally:
            writer.close()

    async def _answer(self, payload: bytes) -> bytes:
        try:
            refused = await self._authority.commit(*decode_commit(payload))
        except StaleSessionError as error:
            return json.dumps({"stale": str(error)}).encode()
        except AuthorityUnavailableError as error:
            return json.dumps({"unavailable": str(error)}).encode()
        return json.dumps({"refused": refused}).encode()


class CommitChannel:
    """A replica's end. One commit at a time; broken for good by any failure."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: ChannelAddress) -> CommitChannel:
        """Connect to the authority's end.

        Raises:
            OSError: the address cannot be reached.
        """
        async with asyncio.timeout(HELLO_TIMEOUT_S):  # a TimeoutError is an OSError
            reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(address.token)
        return cls(reader, writer)

    async def commit(self, payload: bytes) -> list[Key]:
        """Send an encoded commit and return the keys that were refused.

        Raises:
            StaleSessionError: the session has ended.
            AuthorityUnavailableError: the connection is lost, or the authority may not act.
        """
        try:
            _send(self._writer, payload)
            answer = json.loads(await _receive(self._reader))
        except (asyncio.IncompleteReadError, OSError) as error:
            self.close()
            raise AuthorityUnavailableError(f"the connection is lost: {error}") from error
        except BaseException:  # given up in the middle: the next answer would be this one's
            self.close()
            raise
        if "stale" in answer:
            raise StaleSessionError(answer["stale"])
        if "unavailable" in answer:
            raise AuthorityUnavailableError(answer["unavailable"])
        return [Key(*key) for key in answer["refused"]]

    def close(self) -> None:
        self._writer.close()


def _send(writer: asyncio.StreamWriter, payload: bytes) -> None:
    writer.write(_LENGTH.pack(len(payload)) + payload)


async def _receive(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > MAX_FRAME:
        raise ValueError(f"a frame of {length} bytes")
    return await reader.readexactly(length)
