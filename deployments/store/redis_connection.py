"""Calls of a Redis server: with bounds and deadlines, and no write sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import RedisError

from deployments.log import Outages
from deployments.store.interface import InvalidStoreUrl, StoreUnavailable
from deployments.tracing import process as tracing

CONNECT_TIMEOUT_S = 1.0
DEADLINE_S = 1.5
CONNECT_RETRIES = 3
MAX_CONNECTIONS = 16


class ReconnectingPool(BlockingConnectionPool):
    """Retries connecting, with backoff, but never a command.

    The client's own retry covers both. But a write whose response was lost may have been applied: a
    second create would then report the first as a duplicate.
    """

    async def ensure_connection(self, connection: AbstractConnection) -> None:
        connect = super().ensure_connection
        backoff = Retry(ExponentialBackoff(cap=0.4, base=0.05), CONNECT_RETRIES)
        await backoff.call_with_retry(
            lambda: connect(connection), lambda _: connection.disconnect()
        )


class RedisConnection:
    """A lazily connected client whose calls end within their deadline.

    Args:
        prepare: called before the first call, until it has succeeded.

    Attributes:
        identity: the server and its database.
    """

    def __init__(self, url: str, prepare: Callable[[Redis], Awaitable[None]]) -> None:
        self._url = url
        self._prepare = prepare
        self._prepared = False
        self._client: Redis | None = None
        self._outages = Outages("The Redis store")
        try:
            pool = self._make_pool()
            pool.connection_class(**pool.connection_kwargs)  # checks the options, connects nowhere
            host, port, db = map(pool.connection_kwargs.get, ("host", "port", "db"))
            self.identity = f"redis {host or 'localhost'}:{port or 6379}/{db or 0}"
        except (ValueError, TypeError):
            # without the cause: its message can contain a part of a badly escaped password
            raise InvalidStoreUrl(
                "ill-formed redis URL: expected redis://[user:password@]host[:port][/db] "
                "with special characters percent-encoded"
            ) from None

    async def run(
        self, call: Callable[[Redis], Awaitable[Any]], deadline_s: float = DEADLINE_S
    ) -> Any:
        """Return the result of `call(client)`.

        Raises:
            StoreUnavailable: Redis refused, failed, or did not answer within the deadline.
        """
        try:
            with tracing.covering("redis", tracing.current(), "client"):
                answer = await self._run(call, deadline_s)
        except StoreUnavailable as error:
            self._outages.failed(error)
            raise
        self._outages.served()
        return answer

    async def _run(self, call: Callable[[Redis], Awaitable[Any]], deadline_s: float) -> Any:
        if self._client is None:
            self._client = Redis.from_pool(self._make_pool())
        try:
            async with asyncio.timeout(deadline_s):
                if not self._prepared:
                    await self._prepare(self._client)
                    self._prepared = True
                return await call(self._client)
        except TimeoutError as error:
            raise StoreUnavailable(f"redis: no answer within {deadline_s} s") from error
        except (RedisError, OSError) as error:
            raise StoreUnavailable(f"redis: {error}") from error

    async def close(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _make_pool(self) -> ReconnectingPool:
        return ReconnectingPool.from_url(
            self._url,
            protocol=2,  # over 3, redis-py 8 hands out connections that the server has closed
            max_connections=MAX_CONNECTIONS,
            timeout=DEADLINE_S,  # for a free connection
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=None,  # every call has a deadline
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            client_name="greenwave",
        )
