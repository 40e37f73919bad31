"""Everything is killed under load, the whole of Ray at last, and starts anew from what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import System, application
from tests.cluster.customers.test_records import records
from tests.cluster.customers.writers import Writers
from tests.reference import JUNCTIONS

pytestmark = pytest.mark.timeout(600)  # two starts of a cluster

WRITES = 600
MODES = ("memory", "durable")
BODY = {"junction_id": JUNCTIONS[2], "obs_data": [1.0, 0.5]}


@dataclass
class Restarted:
    """What clients had before everything was killed, and what they find."""

    writers: tuple[Writers, ...]
    system: System


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory, system: System) -> Iterator[Restarted]:
    folder = tmp_path_factory.mktemp("restarted")
    before, redis = dict(system.applications), RedisServer(folder / "redis")
    on_sqlite = records("loans", f"sqlite:///{folder / 'records.db'}")
    on_redis = records("cards", redis.url)
    writers = tuple(Writers(system.url + each["route_prefix"]) for each in (on_sqlite, on_redis))
    try:
        redis.start()
        system.deploy(
            on_sqlite,
            on_redis,
            *(application(mode, f"/{mode}", durability=mode) for mode in MODES),
        )
        asyncio.run(_kill_all(system, redis, writers))
        system.instance.stop()
        system.instance.start()
        system.deploy()
        yield Restarted(writers, system)
    finally:
        redis.stop()
        system.applications = before
        system.deploy()


async def _kill_all(system: System, redis: RedisServer, writers: tuple[Writers, ...]) -> None:
    async def have_acknowledged(count: int) -> None:
        await asyncio.gather(*(each.have_acknowledged(count) for each in writers))

    on_sqlite, on_redis = writers
    async with on_sqlite, on_redis:
        await have_acknowledged(WRITES // 3)
        for name in ("loans", "cards"):
            system.kill(system.replicas(name)[0])
        await have_acknowledged(WRITES * 2 // 3)
        redis.kill()
        await asyncio.to_thread(redis.start)
        await have_acknowledged(WRITES)
        for mode in MODES:
            assert [step(system, mode) for _ in range(3)] == [1, 2, 3]
        system.kill_everything()


def step(system: System, mode: str) -> int:
    answer = httpx.post(f"{system.url}/{mode}/predict_action", json=BODY, timeout=10)
    return int(answer.headers["x-hidden-state-step"])


async def test_every_acknowledged_write_is_there(restarted: Restarted) -> None:
    for writers in restarted.writers:
        assert len(writers.acknowledged) >= WRITES
        assert await writers.lost() == []


@pytest.mark.parametrize("mode", MODES)
def test_hidden_states_continue_from_the_last_step(restarted: Restarted, mode: str) -> None:
    assert step(restarted.system, mode) == 4
