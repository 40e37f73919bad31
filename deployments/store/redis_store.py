"""The store for several machines: a Redis server that every node reaches.

Durable means an append-only file with `appendfsync always`; with `everysec` the last second can be
lost. The server's user needs
`~greenwave:* +@connection +@hash +@scripting +copy +pexpire +pttl +incr +unlink +get +set`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import RedisError

from deployments.log import Outages
from deployments.store import redis_scripts as scripts
from deployments.store.interface import (
    ALWAYS,
    BATCH,
    Document,
    DocumentNotFound,
    DuplicateDocument,
    DuplicateIndex,
    DuplicateKey,
    Expected,
    InvalidStoreUrl,
    Keys,
    Puts,
    Store,
    StoreUnavailable,
    batches,
)
from deployments.tracing import process as tracing

CONNECT_TIMEOUT_S = 1.0
DEADLINE_S = 1.5
CONNECT_RETRIES = 3
MAX_CONNECTIONS = 16
# Copying a table of a million documents holds the server for about a second.
COPY_DEADLINE_S = 30.0
SCHEMA_KEY = "greenwave:schema"
ABANDONED_COPY_LIFETIME_MS = 600_000


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


class RedisStore(Store):
    """Documents in Redis hashes, changed by Lua scripts. Each call ends within its deadline."""

    is_local = False
    identity = ""

    def __init__(self, url: str) -> None:
        self._url = url
        self._migrated = False
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

    def __reduce__(self) -> tuple[type[RedisStore], tuple[str]]:
        return RedisStore, (self._url,)

    async def create_many(
        self, table: str, documents: Sequence[Document]
    ) -> list[DuplicateDocument | None]:
        errors: list[DuplicateDocument | None] = []
        for batch in batches(documents):
            arguments = [text for document in batch for text in _arguments(document)]
            outcomes = await self._script(scripts.CREATE_MANY, table, arguments)
            errors += map(_creation_error, outcomes, batch, [table] * len(batch))
        return errors

    async def get(self, table: str, key: str) -> bytes | None:
        documents = _hashes(table)[0]
        value: bytes | None = await self._run(lambda redis: redis.hget(documents, key))
        return value

    async def get_by_index(self, table: str, index: str) -> bytes | None:
        value: bytes | None = await self._script(scripts.GET_BY_INDEX, table, [index])
        return value

    async def replace(self, table: str, document: Document) -> None:
        outcome = await self._script(scripts.REPLACE, table, _arguments(document))
        if outcome == scripts.KEY_UNKNOWN:
            raise DocumentNotFound(table, document.key)
        if outcome == scripts.NEW_INDEX_TAKEN:
            raise DuplicateIndex(table, document.index or "")

    async def delete_by_index(self, table: str, index: str) -> bool:
        return bool(await self._script(scripts.DELETE_BY_INDEX, table, [index]))

    async def change(
        self, table: str, puts: Puts, deletes: Keys = (), *, when: Expected = ALWAYS
    ) -> bool:
        arguments: list[Any] = [when.key, int(when.value is not None), when.value or b"", len(puts)]
        arguments += [text for document in puts.items() for text in document]
        arguments += [key for key in deletes if key not in puts]
        return bool(await self._script(scripts.CHANGE, table, arguments))

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        # Redis has no snapshots, but copies a hash atomically; pages of a hash that does not change
        # contain every field exactly once.
        documents = _hashes(table)[0]
        copy = f"{documents}:copy:{uuid.uuid4().hex}"
        arguments = [ABANDONED_COPY_LIFETIME_MS]
        if not await self._eval(scripts.COPY_HASH, [documents, copy], arguments, COPY_DEADLINE_S):
            return
        try:
            more, cursor = True, 0
            while more:
                if not await self._run(partial(_keep, copy)):
                    raise StoreUnavailable("redis: the copy to be read has expired")
                cursor, page = await self._run(partial(_page, copy, cursor))
                for key, value in page.items():
                    yield key.decode(), value
                more = cursor != 0
        finally:
            await self._run(lambda redis: redis.unlink(copy))

    async def increment(self, counter: str, lifetime_s: float) -> int:
        lifetime_ms = round(lifetime_s * 1000)
        return int(await self._eval(scripts.INCREMENT, [_counter(counter)], [lifetime_ms]))

    async def count(self, counter: str) -> int:
        return int(await self._run(lambda redis: redis.get(_counter(counter))) or 0)

    async def reset(self, counter: str) -> None:
        await self._run(lambda redis: redis.unlink(_counter(counter)))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _script(self, script: str, table: str, arguments: Sequence[Any]) -> Any:
        return await self._eval(script, _hashes(table), arguments)

    async def _eval(
        self, script: str, keys: Sequence[str], arguments: Sequence[Any], *deadline_s: float
    ) -> Any:
        async def call(redis: Redis) -> Any:
            # sends the script's hash, and the script itself to a server that does not know it
            return await redis.register_script(script)(keys=keys, args=arguments)

        return await self._run(call, *deadline_s)

    async def _run(
        self, call: Callable[[Redis], Awaitable[Any]], deadline_s: float = DEADLINE_S
    ) -> Any:
        """Return the result of `call(client)`.

        Raises:
            StoreUnavailable: Redis refused, failed, or did not answer within the deadline.
        """
        try:
            with tracing.covering("redis", tracing.current(), "client"):
                answer = await self._call(call, deadline_s)
        except StoreUnavailable as error:
            self._outages.failed(error)
            raise
        self._outages.served()
        return answer

    async def _call(self, call: Callable[[Redis], Awaitable[Any]], deadline_s: float) -> Any:
        if self._client is None:
            self._client = Redis.from_pool(self._make_pool())
        try:
            async with asyncio.timeout(deadline_s):
                if not self._migrated:
                    await _migrate(self._client)
                    self._migrated = True
                return await call(self._client)
        except TimeoutError as error:
            raise StoreUnavailable(f"redis: no answer within {deadline_s} s") from error
        except (RedisError, OSError) as error:
            raise StoreUnavailable(f"redis: {error}") from error

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


async def _migrate(redis: Redis) -> None:
    """Migrate the server's data to this release's schema.

    Raises:
        StoreUnavailable: the data are of a newer release.
    """
    script = redis.register_script(scripts.MIGRATE)
    version = int(await script(keys=[SCHEMA_KEY], args=[scripts.NEWEST]))
    if version > scripts.NEWEST:
        raise StoreUnavailable(
            f"redis: the data have schema version {version}, newer than {scripts.NEWEST}: "
            "they were made by a newer release"
        )


def _hashes(table: str) -> tuple[str, str, str]:
    # the braces put all three on one shard of a Redis Cluster, as scripts need it
    prefix = f"greenwave:{{{table}}}"
    return f"{prefix}:documents", f"{prefix}:keys", f"{prefix}:indexes"


def _keep(copy: str, redis: Redis) -> Awaitable[Any]:
    return redis.pexpire(copy, ABANDONED_COPY_LIFETIME_MS)


def _page(documents: str, cursor: int, redis: Redis) -> Awaitable[Any]:
    return redis.hscan(documents, cursor, count=BATCH)


def _counter(name: str) -> str:
    return f"greenwave:counter:{name}"


def _arguments(document: Document) -> tuple[str, bytes, str]:
    return document.key, document.value, document.index or ""


def _creation_error(outcome: int, document: Document, table: str) -> DuplicateDocument | None:
    if outcome == scripts.INDEX_TAKEN:
        return DuplicateIndex(table, document.index or "")
    return DuplicateKey(table, document.key) if outcome == scripts.KEY_TAKEN else None
