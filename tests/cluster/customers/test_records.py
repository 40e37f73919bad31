"""Customer records behind several Serve replicas: races, and kill -9 of whatever can be killed."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from testbed.redis_server import RedisServer
from testbed.shipped import shipped_application
from testbed.system import System, make_instance
from tests import races

WRITES = 2_000
STORES = ["sqlite", "redis"]


def records(name: str, store_url: str) -> dict[str, Any]:
    """Return an application of serve_config.yaml, on two replicas and a store of the test's own."""
    return shipped_application(name, replicas=2, env={"STORE_URL": store_url})


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module", params=STORES)
def url(
    request: pytest.FixtureRequest,
    system: System,
    redis_server: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Serve loans on two replicas, once on each store."""
    sqlite = f"sqlite:///{tmp_path_factory.mktemp('records') / 'records.db'}"
    store_url = sqlite if request.param == "sqlite" else redis_server.url
    system.deploy(records("loans", store_url))
    yield f"{system.url}/api/loans"
    system.remove("loans")


async def test_of_50_concurrent_creates_one_succeeds(url: str) -> None:
    await races.creates_of_one_mobile_number([url], "4354437001")


async def test_concurrent_updates_never_mix_fields(url: str) -> None:
    await races.updates_of_one_record([url], "4354437002")


async def test_one_of_many_updates_gets_a_mobile_number(url: str) -> None:
    await races.updates_to_one_mobile_number([url], [f"43544371{n:02}" for n in range(9)])


class Writers:
    """Clients that create records in a block, and note what was acknowledged."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.acknowledged: list[str] = []
        self.other_answers: Counter[str] = Counter()
        self._numbers = iter(range(10**9))
        self._stopped = False

    async def __aenter__(self) -> Self:
        self._client = httpx.AsyncClient(timeout=10)
        self._tasks = [asyncio.create_task(self._write(self._client)) for _ in range(8)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopped = True
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def have_acknowledged(self, count: int) -> None:
        try:
            async with asyncio.timeout(100):
                while len(self.acknowledged) < count:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pytest.fail(f"{len(self.acknowledged)} of {count} writes: {self.other_answers}")

    async def _write(self, client: httpx.AsyncClient) -> None:
        while not self._stopped:
            mobile = f"{next(self._numbers):010}"
            try:
                answer = await client.post(self.url, params={"mobileNumber": mobile})
            except httpx.HTTPError as error:
                other = type(error).__name__
            else:
                other = f"{answer.status_code} {answer.text[:100]}"
                if answer.status_code == 201:
                    self.acknowledged.append(mobile)
                    continue
            self.other_answers[other] += 1
            await asyncio.sleep(0.05)

    async def lost(self) -> list[str]:
        """Return the acknowledged records that cannot be fetched."""
        gate = asyncio.Semaphore(16)
        async with httpx.AsyncClient(timeout=20) as client:

            async def is_lost(mobile: str) -> bool:
                async with gate:
                    answer = await client.get(self.url, params={"mobileNumber": mobile})
                return answer.status_code != 200

            lost = await asyncio.gather(*(is_lost(mobile) for mobile in self.acknowledged))
        return [mobile for mobile, gone in zip(self.acknowledged, lost, strict=True) if gone]


@pytest.mark.timeout(600)
async def test_every_acknowledged_write_survives_kills_of_replica_store_and_ray(
    tmp_path: Path,
) -> None:
    temp_dir = Path(tempfile.mkdtemp(prefix="gw-", dir="/tmp"))
    instance = make_instance(tmp_path / "data", temp_dir)
    system = System(instance)
    redis_server = RedisServer(tmp_path / "redis")
    on_sqlite = records("loans", f"sqlite:///{tmp_path / 'records.db'}")
    on_redis = records("cards", redis_server.url)
    sqlite, redis = (
        Writers(f"{system.url}{application['route_prefix']}")
        for application in (on_sqlite, on_redis)
    )

    async def both_have_acknowledged(count: int) -> None:
        await asyncio.gather(*(each.have_acknowledged(count) for each in (sqlite, redis)))

    try:
        redis_server.start()
        await asyncio.to_thread(instance.start)
        await asyncio.to_thread(system.deploy, on_sqlite, on_redis)
        async with sqlite, redis:
            await both_have_acknowledged(WRITES // 3)
            for name in ("loans", "cards"):
                system.kill(system.replicas(name)[0])
            await both_have_acknowledged(WRITES * 2 // 3)
            redis_server.kill()
            await asyncio.to_thread(redis_server.start)
            await both_have_acknowledged(WRITES)
            system.kill_everything()
        await asyncio.to_thread(instance.stop)
        await asyncio.to_thread(instance.start)
        await asyncio.to_thread(system.deploy)
        for writers in (sqlite, redis):
            assert len(writers.acknowledged) >= WRITES
            assert await writers.lost() == []
    finally:
        instance.stop()
        redis_server.stop()
        shutil.rmtree(temp_dir, ignore_errors=True)
