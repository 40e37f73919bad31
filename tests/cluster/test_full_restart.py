"""Everything is killed under load, the whole of Ray at last, and starts anew from what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from deployments.inference.policy_model import initial_state
from deployments.stateful.authority.snapshots import Snapshot, key_of
from deployments.stateful.layout import table_of
from deployments.stateful.protocol import Key
from deployments.store import open_store
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import System, application
from tests.cluster.customers.test_records import records
from tests.cluster.customers.writers import Writers
from tests.reference import JUNCTIONS

pytestmark = pytest.mark.timeout(600)  # two starts of a cluster

WRITES = 600
RESTORED, STORED, FORGOTTEN = "/restored", "/stored", "/forgotten"
STATE_BYTES = initial_state(Key("", "")).nbytes
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
            application("restored", RESTORED, restore_after_restart=True),
            application("stored", STORED, durability="store"),
            application("forgotten", FORGOTTEN),
        )
        states = system.instance.data_dir / "greenwave.db"
        asyncio.run(_kill_all(system, redis, writers, states))
        system.instance.stop()
        system.instance.start()
        system.deploy()
        yield Restarted(writers, system)
    finally:
        redis.stop()
        system.applications = before
        system.deploy()


async def _kill_all(
    system: System, redis: RedisServer, writers: tuple[Writers, ...], states: Path
) -> None:
    async def have_acknowledged(count: int) -> None:
        await asyncio.gather(*(each.have_acknowledged(count) for each in writers))

    for prefix in (RESTORED, STORED, FORGOTTEN):
        assert [step(system, prefix) for _ in range(3)] == [1, 2, 3]
    on_sqlite, on_redis = writers
    async with on_sqlite, on_redis:
        await have_acknowledged(WRITES // 3)
        for name in ("loans", "cards"):
            system.kill(system.replicas(name)[0])
        await have_acknowledged(WRITES * 2 // 3)
        redis.kill()
        await asyncio.to_thread(redis.start)
        await have_acknowledged(WRITES)
        async with asyncio.timeout(20):  # the newest states are saved by then
            applications = "restored", "stored", "forgotten"
            while any([await saved_steps(states, app) != [3] for app in applications]):
                await asyncio.sleep(0.1)
        system.kill_everything()


def step(system: System, prefix: str) -> int:
    answer = httpx.post(f"{system.url}{prefix}/predict_action", json=BODY, timeout=10)
    return int(answer.headers["x-hidden-state-step"])


async def saved_steps(path: Path, app: str) -> list[int]:
    store = open_store(f"sqlite:///{path}")
    try:
        rows = [row async for row in store.scan(table_of(app))]
        snapshots = [Snapshot.unpack(value, STATE_BYTES) for row, value in rows if key_of(row)]
        return [snapshot.version.step for snapshot in snapshots if snapshot is not None]
    finally:
        await store.close()


async def test_every_acknowledged_write_is_there(restarted: Restarted) -> None:
    for writers in restarted.writers:
        assert len(writers.acknowledged) >= WRITES
        assert await writers.lost() == []


def test_hidden_states_continue_if_each_step_reaches_the_store_or_the_configuration_says_so(
    restarted: Restarted,
) -> None:
    assert step(restarted.system, RESTORED) == 4
    assert step(restarted.system, STORED) == 4
    assert step(restarted.system, FORGOTTEN) == 1
