"""What was acknowledged survives kill -9 of whoever wrote it, and of Redis."""

import asyncio
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from deployments.store import Store, StoreUnavailable, open_store
from load_tests.harness.redis_server import RedisServer
from tests.store.writer import TABLE, document

ROOT = Path(__file__).parents[2]
WRITES = 2_000


class Manifest:
    """The acknowledged version of every document."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.writes = 0

    def add(self, key: str, version: int) -> None:
        self.versions[key] = max(version, self.versions.get(key, 0))
        self.writes += 1

    def read(self, lines: Iterable[str], writes: int) -> None:
        """Add lines of a writer until it has made so many writes."""
        wanted = self.writes + writes
        for line in lines:
            key, version = line.split()
            self.add(key, int(version))
            if self.writes >= wanted:
                return

    async def check(self, store: Store) -> None:
        """Assert that every acknowledged version, or a later one, is there whole and indexed."""
        found = {key: value async for key, value in store.scan(TABLE)}
        for key, acknowledged in self.versions.items():
            possible = {document(key, v).value: v for v in (1, 2) if v >= acknowledged}
            assert found.get(key) in possible, key
            index = document(key, possible[found[key]]).index
            assert index is not None
            assert await store.get_by_index(TABLE, index) == found[key]


@pytest.fixture
def store_url(request, tmp_path):
    """Name a store that nobody else uses: what is written here would burden them."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


def start_writer(url: str, prefix: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.writer", url, prefix]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("store_url", ["sqlite", "redis"], indirect=True)
async def test_killed_writers_lose_nothing_that_they_acknowledged(store, store_url):
    manifest = Manifest()
    survivor = start_writer(store_url, "survivor")
    try:
        for round_ in range(5):
            victim = start_writer(store_url, f"victim{round_}")
            assert victim.stdout is not None
            manifest.read(victim.stdout, WRITES // 4)
            victim.kill()
            manifest.read(victim.stdout, WRITES)  # what it wrote before it died
            victim.wait(timeout=20)
            victim.stdout.close()
        assert survivor.stdout is not None
        manifest.read(survivor.stdout, WRITES // 4)  # which goes on unhindered
    finally:
        survivor.kill()
        survivor.communicate(timeout=20)
    assert manifest.writes >= WRITES
    await manifest.check(store)


@pytest.mark.parametrize("store_url", ["redis"], indirect=True)
async def test_a_killed_redis_loses_nothing_that_it_acknowledged(store, redis_server):
    manifest = Manifest()
    failures = 0

    async def work(worker):
        nonlocal failures
        n = 0
        while manifest.writes < WRITES:
            key, n = f"{worker}-{n}", n + 1
            try:
                await store.create(TABLE, document(key, 1))
                manifest.add(key, 1)
                await store.replace(TABLE, document(key, 2))
                manifest.add(key, 2)
            except StoreUnavailable:
                failures += 1
                await asyncio.sleep(0.02)

    async def kill():
        for round_ in range(1, 4):
            while manifest.writes < round_ * WRITES // 4:
                await asyncio.sleep(0.001)
            redis_server.kill()
            await asyncio.to_thread(redis_server.start)

    await asyncio.gather(kill(), *map(work, range(16)))
    assert manifest.writes >= WRITES
    assert failures > 0
    fresh = open_store(redis_server.url)
    await manifest.check(fresh)
    await fresh.close()
