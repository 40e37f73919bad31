"""Commits over a socket of their own: the one call that is made all the time.

A commit follows every few milliseconds of steps, and as a Ray actor call it costs both sides more
than the steps themselves. So each replica keeps a connection to the actor. Everything else stays
with actor calls.

A commit's payload is the length of a JSON header (4 bytes, big endian), the header, and the packed
states; an answer's payload is JSON.
"""

from __future__ import annotations

import json
import struct

from deployments.channel import Address, Channel, Listener, connect
from deployments.stateful.protocol import (
    Authority,
    AuthorityUnavailableError,
    Key,
    StaleSessionError,
    StateBatch,
)
from deployments.trace_context import Trace
from deployments.tracing import process as tracing

MAX_FRAME = 256 << 20

_LENGTH = struct.Struct(">I")


def encode_commit(
    session: int, states: StateBatch, released: list[Key], call: int, trace: Trace | None = None
) -> bytes:
    header = json.dumps([session, released, call, trace]).encode()
    return b"".join((_LENGTH.pack(len(header)), header, states.pack()))


def decode_commit(
    payload: bytes,
) -> tuple[tuple[int, StateBatch, list[Key], int], list[Trace]]:
    """Return the arguments of :meth:`~deployments.stateful.protocol.Authority.commit`, and the
    trace that it belongs to, if any.

    Raises:
        ValueError: not a commit.
    """
    try:
        start = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
        session, released, call, trace = json.loads(payload[_LENGTH.size : start])
        states = StateBatch.unpack(memoryview(payload)[start:])
        traces = [Trace(*trace)] if trace else []
        return (session, states, [Key(*key) for key in released], call), traces
    except (struct.error, TypeError) as error:
        raise ValueError(f"not a commit: {error}") from error


async def take_commit(authority: Authority, payload: bytes) -> list[Key]:
    """Carry out an encoded commit, and return the keys that are refused.

    Raises:
        ValueError: not a commit.
        HiddenStateError: what the authority says.
    """
    arguments, traces = decode_commit(payload)
    with tracing.covering("commit at the state actor", traces, "server"):
        return await authority.commit(*arguments)


class CommitServer:
    """The authority's end, in the actor's event loop."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._listener = Listener(self._serve, MAX_FRAME, "commits")

    async def start(self, host: str) -> Address:
        """Listen on a free port."""
        return await self._listener.start(host)

    def close(self) -> None:
        """Take no new connections; those that are open end with their replicas."""
        self._listener.close()

    async def _serve(self, channel: Channel) -> None:
        while True:
            channel.send(await self._answer(await channel.receive()))
            await channel.drain()

    async def _answer(self, payload: bytes) -> bytes:
        try:
            refused = await take_commit(self._authority, payload)
        except StaleSessionError as error:
            return json.dumps({"stale": str(error)}).encode()
        except AuthorityUnavailableError as error:
            return json.dumps({"unavailable": str(error)}).encode()
        return json.dumps({"refused": refused}).encode()


class CommitChannel:
    """A replica's end. One commit at a time; broken for good by any failure."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @classmethod
    async def open(cls, address: Address) -> CommitChannel:
        """Connect to the authority's end.

        Raises:
            OSError: the address cannot be reached.
        """
        return cls(await connect(address, MAX_FRAME))

    async def commit(self, payload: bytes) -> list[Key]:
        """Send an encoded commit and return the keys that were refused.

        Raises:
            StaleSessionError: the session has ended.
            AuthorityUnavailableError: the connection is lost, or the authority may not act.
        """
        try:
            self._channel.send(payload)
            answer = json.loads(await self._channel.receive())
        except OSError as error:
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
        self._channel.close()
