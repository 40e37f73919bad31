"""Whatever Redis refuses a call with, the store is out of reach, which callers answer with 503."""

from typing import Any

import pytest
from redis import exceptions

from deployments.store import StoreUnavailable
from deployments.store.redis_connection import RedisConnection


async def _prepared(redis: Any) -> None: ...


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ReadOnlyError("You can't write against a read only replica."),
        exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        exceptions.MasterDownError("Link with MASTER is down"),
        exceptions.ClusterDownError("CLUSTERDOWN The cluster is down"),
        exceptions.TryAgainError("TRYAGAIN"),
        exceptions.ResponseError("MISCONF Errors writing to the AOF file: No space left on device"),
        exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."),
        exceptions.ResponseError("BUSY Redis is busy running a script."),
        exceptions.AuthenticationError("NOAUTH"),
        exceptions.NoPermissionError("NOPERM"),
        exceptions.MaxConnectionsError("ERR max number of clients reached"),
        exceptions.InvalidResponse("not the protocol"),
        exceptions.ConnectionError("Connection reset by peer"),
        exceptions.TimeoutError("Timeout reading from socket"),
        OSError(113, "No route to host"),
    ],
    ids=lambda error: f"{type(error).__name__} {str(error)[:12]}",
)
async def test_every_refusal_is_an_outage(error):
    async def refuse(redis):
        raise error

    connection = RedisConnection("redis://nobody:1/0", _prepared)
    with pytest.raises(StoreUnavailable, match=r"^redis: "):
        await connection.run(refuse)
    await connection.close()


async def test_a_defect_is_none():
    async def fail(redis):
        raise ZeroDivisionError

    connection = RedisConnection("redis://nobody:1/0", _prepared)
    with pytest.raises(ZeroDivisionError):
        await connection.run(fail)
    await connection.close()
