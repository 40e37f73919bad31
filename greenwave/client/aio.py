"""The asynchronous client."""

from __future__ import annotations

from typing import Self, TypeVar

from greenwave.client.base import BaseClient
from greenwave.client.call import Call
from greenwave.client.service import Asynchronous

Result = TypeVar("Result")


class AsyncClient(BaseClient[Asynchronous]):
    """A client for an event loop, whose tasks can share it; ``async with`` closes it."""

    async def close(self) -> None:
        """Close the connections; later calls raise InvalidInputError."""
        self._closed = True
        await self._exchange.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _perform(self, call: Call[Result], /) -> Result:
        self._check_open(call)
        return await self._engine.complete(call)
