"""Snapshots carry states over a restart; the store's troubles stop nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping

import numpy as np
import pytest

from deployments.inference.authority.snapshots import TABLE, Snapshot, StoreSnapshots
from deployments.inference.protocol import Key, Version
from tests.unit.inference.virtual_time import virtual_time
from tests.unit.inference.world import World, settings

KEY = Key("run", "300839359")
CLUSTER, NEXT_CLUSTER = b"cluster-number-1", b"cluster-number-2"
PERIOD_S = 0.1


class FakeStore:
    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.writes = 0
        self.fails = False
        self.delay_s = 0.0

    async def put_many(self, table: str, blobs: Mapping[str, bytes]) -> None:
        await self._work(table)
        self.blobs.update(blobs)

    async def delete_many(self, table: str, keys: Collection[str]) -> int:
        await self._work(table)
        return sum(self.blobs.pop(key, None) is not None for key in keys)

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        await self._work(table)
        for name, blob in list(self.blobs.items()):
            yield name, blob

    async def _work(self, table: str) -> None:
        assert table == TABLE
        await asyncio.sleep(self.delay_s)
        if self.fails:
            raise ConnectionError("the store is gone")
        self.writes += 1


class Stored:
    """A world whose authority keeps snapshots, and writes them like the actor does."""

    def __init__(
        self,
        store: FakeStore,
        cluster: bytes = CLUSTER,
        restore: bool = False,
        period_s: float = PERIOD_S,
    ) -> None:
        self.store = store
        self.period_s = period_s
        self.loops: list[asyncio.Task[None]] = []
        self.world = World(
            snapshots=lambda: self.open(cluster, restore), settings=settings(lease_s=0.2)
        )

    def open(self, cluster: bytes, restore: bool) -> StoreSnapshots:
        for loop in self.loops:
            loop.cancel()
        snapshots = StoreSnapshots(self.store, cluster, restore)
        self.loops = [asyncio.create_task(snapshots.run(self.period_s))]
        return snapshots


def snapshot(step: int, fill: float = 0.5) -> Snapshot:
    return Snapshot(Version(step, step), np.full(128, fill, np.float32))


@virtual_time
async def test_what_is_put_is_loaded_again():
    store = FakeStore()
    written = StoreSnapshots(store, CLUSTER, restore=False)
    written.put(KEY, snapshot(3, 0.25))
    written.put(Key("other.run:1", "8541180897"), snapshot(4))
    await written.flush()
    loaded = dict(await StoreSnapshots(store, CLUSTER, restore=False).load())
    assert set(loaded) == {KEY, Key("other.run:1", "8541180897")}
    assert loaded[KEY].version == Version(3, 3)
    assert np.array_equal(loaded[KEY].hidden, np.full(128, 0.25, np.float32))


@virtual_time
async def test_the_newest_put_or_erase_counts():
    store = FakeStore()
    snapshots = StoreSnapshots(store, CLUSTER, restore=False)
    for step in range(5):
        snapshots.put(KEY, snapshot(step))
    await snapshots.flush()
    assert store.writes == 1
    snapshots.put(KEY, snapshot(9))
    snapshots.erase(KEY)
    await snapshots.flush()
    assert store.blobs == {}


@virtual_time
async def test_another_cluster_restores_only_when_asked_and_else_erases():
    store = FakeStore()
    written = StoreSnapshots(store, CLUSTER, restore=False)
    written.put(KEY, snapshot(3))
    await written.flush()
    assert await StoreSnapshots(store, NEXT_CLUSTER, restore=True).load() != []
    fresh = StoreSnapshots(store, NEXT_CLUSTER, restore=False)
    assert await fresh.load() == []
    await fresh.flush()
    assert store.blobs == {}


@virtual_time
async def test_shards_see_only_their_own():
    store = FakeStore()
    for number in (0, 1):
        one = StoreSnapshots(store, CLUSTER, restore=False, shard=(number, 2))
        one.put(Key(f"run-{number}", "300839359"), snapshot(1))
        await one.flush()
    loaded = await StoreSnapshots(store, CLUSTER, restore=False, shard=(1, 2)).load()
    assert [key.run for key, _ in loaded] == ["run-1"]


@pytest.mark.parametrize("blob", [b"", b"short", b"x" * 32, b"x" * 10_000])
@virtual_time
async def test_a_damaged_blob_is_left_out_alone(blob):
    store = FakeStore()
    snapshots = StoreSnapshots(store, CLUSTER, restore=False)
    snapshots.put(KEY, snapshot(3))
    await snapshots.flush()
    store.blobs = {"0/1/bad/300839359": blob, **store.blobs}
    assert [key for key, _ in await StoreSnapshots(store, CLUSTER, False).load()] == [KEY]


@virtual_time
async def test_a_failing_store_is_tried_again_with_the_newest():
    store = FakeStore()
    snapshots = StoreSnapshots(store, CLUSTER, restore=False)
    loop = asyncio.create_task(snapshots.run(PERIOD_S))
    store.fails = True
    snapshots.put(KEY, snapshot(1))
    await asyncio.sleep(3 * PERIOD_S)
    snapshots.put(KEY, snapshot(2))
    assert await snapshots.load() == []
    store.fails = False
    await asyncio.sleep(3 * PERIOD_S)
    assert dict(await snapshots.load())[KEY].version == Version(2, 2)
    assert not loop.done()
    loop.cancel()


@virtual_time
async def test_a_hanging_store_holds_nobody_for_long():
    store = FakeStore()
    store.delay_s = 1000.0
    stored = Stored(store)
    replica = (await stored.world.start()).replicas[0]
    store.delay_s = 0.0
    await stored.world.predict(replica, KEY)
    store.delay_s = 1000.0
    before = asyncio.get_running_loop().time()
    reset = await stored.world.reset(replica, KEY.run)
    assert reset.done is not None
    assert asyncio.get_running_loop().time() - before < 5
    assert (await stored.world.predict(replica, KEY)).step == 1


@virtual_time
async def test_a_restarted_authority_goes_on_from_snapshots_of_states_without_owner():
    stored = Stored(FakeStore())
    world = await stored.world.start(1)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    await world.replicas[0].leases.close()
    await world.kill_authority()
    late = await world.add_replica()
    assert (await world.predict(late, KEY)).step == 4
    world.history.check()


@virtual_time
async def test_an_owner_knows_better_than_the_snapshot():
    stored = Stored(FakeStore())
    world = await stored.world.start(1)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(2 * PERIOD_S)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    await world.kill_authority()
    assert (await world.predict(world.replicas[0], KEY)).step == 7
    world.history.check()


@virtual_time
async def test_a_dead_owners_state_is_saved_as_soon_as_it_is_free():
    stored = Stored(FakeStore(), period_s=1000.0)
    world = await stored.world.start(2)
    await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(0.02)
    world.kill_replica(world.replicas[0], noticed_after_s=None)
    await asyncio.sleep(0.3)
    await world.kill_authority()
    assert (await world.predict(world.replicas[1], KEY)).step == 2
    world.history.check()


@pytest.mark.parametrize(("restore", "step"), [(True, 4), (False, 1)])
@virtual_time
async def test_a_full_restart_continues_when_the_configuration_says_so(restore, step):
    store = FakeStore()
    before = await Stored(store).world.start()
    for _ in range(3):
        await before.predict(before.replicas[0], KEY)
    await asyncio.sleep(2 * PERIOD_S)
    before.shards[0].stop()
    before.replicas[0].kill()
    after = await Stored(store, NEXT_CLUSTER, restore).world.start()
    after.policy = after.replicas[0].source.model = before.policy
    assert (await after.predict(after.replicas[0], KEY)).step == step


@virtual_time
async def test_a_reset_erases_the_snapshot_before_it_returns():
    stored = Stored(FakeStore())
    world = await stored.world.start()
    await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(2 * PERIOD_S)
    assert stored.store.blobs
    await world.reset(world.replicas[0], KEY.run)
    assert stored.store.blobs == {}


@virtual_time
async def test_a_reset_that_could_not_be_saved_still_outlives_the_authority():
    stored = Stored(FakeStore())
    world = await stored.world.start(2)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(2 * PERIOD_S)
    stored.store.fails = True
    await world.reset(world.replicas[0], KEY.run)
    for loop in stored.loops:
        loop.cancel()
    stored.store.fails = False
    await world.kill_authority()
    assert (await world.predict(world.replicas[1], KEY)).step == 1
    world.history.check()


@virtual_time
async def test_an_expired_run_is_erased():
    stored = Stored(FakeStore())
    stored.world.settings = settings(run_ttl_s=0.5)
    world = await stored.world.start()
    await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(2)
    assert stored.store.blobs == {}


@virtual_time
async def test_a_slow_load_delays_grants_and_loses_no_claim():
    stored = Stored(FakeStore())
    world = await stored.world.start(2)
    owner, other = world.replicas
    for _ in range(3):
        await world.predict(owner, KEY)
    await asyncio.sleep(2 * PERIOD_S)
    for _ in range(2):
        await world.predict(owner, KEY)
    stored.store.delay_s = 1.0  # longer than a lease and its margin
    await world.kill_authority()
    assert (await world.predict(other, KEY)).step == 6
    world.history.check()


@virtual_time
async def test_a_reset_during_a_slow_load_is_not_undone_by_it():
    stored = Stored(FakeStore())
    world = await stored.world.start(1)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    await world.replicas[0].leases.close()
    stored.store.delay_s = 1.0
    await world.kill_authority()
    await world.shards[0].authority.reset(KEY.run)
    stored.store.delay_s = 0.0
    late = await world.add_replica()
    assert (await world.predict(late, KEY)).step == 1


@virtual_time
async def test_snapshots_beyond_the_cap_are_kept():
    store = FakeStore()
    written = StoreSnapshots(store, CLUSTER, restore=False)
    keys = [Key(f"run-{n}", "300839359") for n in range(5)]
    for key in keys:
        written.put(key, snapshot(1))
    await written.flush()
    stored = Stored(store)
    stored.world.settings = settings(max_states=2)
    world = await stored.world.start()
    assert world.shards[0].authority.n_states == 5


@virtual_time
async def test_applications_that_share_a_store_keep_their_states_apart() -> None:
    store = FakeStore()
    one = StoreSnapshots(store, CLUSTER, restore=True, app="one")
    one.put(KEY, snapshot(3))
    await one.flush()
    assert await StoreSnapshots(store, CLUSTER, restore=True, app="two").load() == []
    assert [key for key, _ in await StoreSnapshots(store, CLUSTER, True, app="one").load()] == [KEY]
