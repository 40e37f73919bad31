"""Connections without a network, of which the test holds the other end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(eq=False)
class FakeConnection:
    """One end of a connection.

    Attributes:
        sent: what this end has sent.
        coming: what it will receive; None for the end of the connection.
        waiting: bytes that the other end has not taken, as the test says.
    """

    sent: list[bytes] = field(default_factory=list)
    coming: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    waiting: int = 0
    closed: bool = False

    def send(self, payload: bytes) -> None:
        self.sent.append(payload)

    async def receive(self) -> bytes:
        payload = await self.coming.get()
        if payload is None:
            raise ConnectionResetError
        return payload

    def abort(self) -> None:
        self.closed = True
        self.coming.put_nowait(None)
