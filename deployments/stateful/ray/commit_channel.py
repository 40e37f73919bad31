"""Commits over a TCP connection between a replica and the state actor.

A commit follows every few milliseconds of steps, and as a Ray actor call it costs both sides more
than the steps themselves. All other calls are actor calls.

A request is one frame of :func:`~deployments.stateful.protocol.pack_frame`, with the header
``[session, call, released, trace, batch header]``. A response is a JSON object.
"""

from __future__ import annotations

import json
from typing import Any

from deployments.stateful.protocol import (
    Authority,
    AuthorityUnavailableError,
    Key,
    StaleSessionError,
    StateBatch,
    StateError,
    pack_frame,
    unpack_frame,
)
from deployments.stateful.ray.channel import Address, Channel, Listener, connect
from deployments.trace_context import Trace
from deployments.tracing import process as tracing

MAX_FRAME = 256 << 20

_ERRORS: dict[str, type[StateError]] = {
    "stale": StaleSessionError,
    "unavailable": AuthorityUnavailableError,
}


def encode_commit(
    session: int, states: StateBatch, released: list[Key], call: int, trace: Trace | None = None
) -> bytes:
    header = [session, call, list(map(tuple, released)), trace and tuple(trace), states.header()]
    return pack_frame(header, states.states)


def decode_commit(frame: bytes) -> tuple[tuple[int, StateBatch, list[Key], int], list[Trace]]:
    """Return the arguments of :meth:`~deployments.stateful.protocol.Authority.commit`, and the
    trace that it belongs to, if any.

    Raises:
        ValueError: not a commit.
    """
    header, packed = unpack_frame(frame)
    try:
        session, call, released, trace, batch = header
        states = StateBatch.from_frame(batch, packed)
        traces = [Trace(*trace)] if trace else []
        return (session, states, [Key(*key) for key in released], call), traces
    except TypeError as error:
        raise ValueError(f"not a commit: {error}") from error


class CommitServer:
    """The authority's end, in the actor's event loop."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._listener = Listener(self._serve, MAX_FRAME, "commits")

    async def start(self, host: str) -> Address:
        """Listen on a free port."""
        return await self._listener.start(host)

    def close(self) -> None:
        """Accept no new connections; open ones end with their replicas."""
        self._listener.close()

    async def _serve(self, channel: Channel) -> None:
        while True:
            response = await self._respond(await channel.receive())
            channel.send(json.dumps(response).encode())
            await channel.drain()

    async def _respond(self, frame: bytes) -> dict[str, Any]:
        arguments, traces = decode_commit(frame)
        try:
            with tracing.covering("commit at the state actor", traces, "server"):
                return {"refused": await self._authority.commit(*arguments)}
        except tuple(_ERRORS.values()) as error:
            names = [name for name, kind in _ERRORS.items() if isinstance(error, kind)]
            return {names[0]: str(error)}


class CommitChannel:
    """A replica's end. One commit at a time; after any failure the connection is closed."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @classmethod
    async def open(cls, address: Address) -> CommitChannel:
        """Connect to the authority's end.

        Raises:
            AuthorityUnavailableError: the address cannot be reached.
        """
        try:
            return cls(await connect(address, MAX_FRAME))
        except OSError as error:
            raise AuthorityUnavailableError(
                f"Cannot connect to the state actor at {address.host}:{address.port}: {error}"
            ) from error

    async def commit(self, frame: bytes) -> list[Key]:
        """Send an encoded commit and return the keys that were refused.

        Raises:
            StaleSessionError: the session has ended.
            AuthorityUnavailableError: the connection is lost, or the authority may not act.
        """
        try:
            self._channel.send(frame)
            response = json.loads(await self._channel.receive())
        except (OSError, RuntimeError) as error:  # the latter of uvloop, once it is closed
            self.close()
            raise AuthorityUnavailableError(f"The connection was lost: {error}") from error
        except BaseException:  # cancelled halfway: the next response would be this one's
            self.close()
            raise
        for name, kind in _ERRORS.items():
            if name in response:
                raise kind(response[name])
        return [Key(*key) for key in response["refused"]]

    def close(self) -> None:
        self._channel.close()
