"""Every store test runs on both real stores."""

import pytest
import redis

from deployments.store import open_store
from load_tests.harness.redis_server import RedisServer


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory):
    """Share one server among tests that leave it running; `store_url` empties it for each."""
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    with redis.Redis(port=server.port) as client:
        client.config_set("appendfsync", "no")  # a busy disk syncs for longer than a call may take
    yield server
    server.stop()


@pytest.fixture
def redis_server(tmp_path):
    """Start a server of the test's own, to be killed or paused."""
    server = RedisServer(tmp_path / "redis").start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request, tmp_path):
    """Return the URL of an empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: RedisServer = request.getfixturevalue("shared_redis")
    with redis.Redis(port=server.port) as client:
        client.flushall()
    return server.url


@pytest.fixture
async def store(store_url):
    opened = open_store(store_url)
    yield opened
    await opened.close()
