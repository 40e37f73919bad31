"""Which epochs are void, and for how long; and what of it outlives the authority (invariant 6)."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.eviction import Resets
from deployments.stateful.authority.fenced_writer import FencedWriter, SupersededError
from deployments.stateful.authority.snapshots import Snapshot, cluster_stamp
from deployments.stateful.layout import Partition, agree_on_layout
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    ClaimPart,
    Hello,
    Key,
    Receipt,
    StateBatch,
    Version,
)
from tests.unit.stateful.authorities import (
    TABLE,
    batch,
    join,
    make_authority,
    now,
    restart,
)
from tests.unit.stateful.lineage import Outcome
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST, settings
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import World

KEY = Key("run", "300839359")
ROW = f"reset/1/0/{KEY.run}"
KEEP_S = 10.0


async def make_resets() -> tuple[MemoryStore, FencedWriter, Resets]:
    store = MemoryStore()
    await agree_on_layout(store, TABLE, FAST, "test")
    writer = FencedWriter(store, TABLE, Partition())
    await writer.acquire("first", "node/1/1")
    return store, writer, Resets(writer, Partition(), now)


@virtual_time
async def test_every_epoch_up_to_the_resets_is_void_and_no_other_runs():
    _, _, resets = await make_resets()
    await resets.write("run", 7, [])
    assert [resets.voids("run", epoch) for epoch in (6, 7, 8)] == [True, True, False]
    assert not resets.voids("other", 1)


@virtual_time
async def test_it_is_in_the_store_with_its_copies_erased_before_it_counts():
    store, writer, resets = await make_resets()
    await writer.write({"copy/run/a": b"1", "copy/run/b": b"2"})
    store.down = True
    with pytest.raises(AuthorityUnavailableError):
        await resets.write("run", 7, ["copy/run/a"])
    assert not resets.voids("run", 7)
    store.down = False
    await resets.write("run", 7, ["copy/run/a"])
    assert int.from_bytes(store.tables[TABLE][ROW], "little") == 7
    assert "copy/run/a" not in store.tables[TABLE]
    assert "copy/run/b" in store.tables[TABLE]


@virtual_time
async def test_it_is_forgotten_when_no_claim_can_bring_the_run_back():
    store, _, resets = await make_resets()
    await resets.write("old", 7, [])
    await asyncio.sleep(KEEP_S / 2)
    await resets.write("run", 8, [])
    await asyncio.sleep(KEEP_S / 2 + 0.1)
    await resets.prune(KEEP_S)
    assert (resets.voids("old", 7), resets.voids("run", 8)) == (False, True)
    assert "reset/1/0/old" not in store.tables[TABLE]
    assert resets.rows == [ROW]


@virtual_time
async def test_one_that_is_repeated_while_it_is_forgotten_stays():
    store, _, resets = await make_resets()
    await resets.write("run", 7, [])
    await asyncio.sleep(KEEP_S + 1)
    await asyncio.gather(resets.write("run", 9, []), resets.prune(KEEP_S))
    assert resets.voids("run", 9)
    assert int.from_bytes(store.tables[TABLE][ROW], "little") == 9


@virtual_time
async def test_one_that_is_repeated_behind_its_forgetting_stays():
    store, _, resets = await make_resets()
    await resets.write("run", 7, [])
    await asyncio.sleep(KEEP_S + 1)
    await asyncio.gather(resets.prune(KEEP_S), resets.write("run", 9, []))
    assert resets.voids("run", 9)
    assert int.from_bytes(store.tables[TABLE][ROW], "little") == 9


@virtual_time
async def test_a_life_that_was_succeeded_keeps_none():
    store, _, resets = await make_resets()
    await FencedWriter(store, TABLE, Partition()).acquire("first", "node/2/2")
    with pytest.raises(SupersededError):
        await resets.write("run", 7, [])
    assert ROW not in store.tables[TABLE]


# What the authority makes of it


@virtual_time
async def test_it_is_in_the_store_before_it_is_answered():
    store = MemoryStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    granted = await authority.checkout(session, KEY)
    await authority.commit(session, batch(KEY, Version(granted.version.epoch, 5)), [KEY])
    await authority.reset(session, KEY.run)
    assert int.from_bytes(store.tables[TABLE][ROW], "little") > granted.version.epoch
    assert not any(row.startswith("copy/") for row in store.tables[TABLE])


@virtual_time
async def test_whoever_waits_for_a_state_meanwhile_gets_zeros_without_receipts():
    """A key that was used before it would be answered with a step that is not in the state."""
    authority = await make_authority()
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    epoch = (await authority.checkout(owner, KEY)).version.epoch
    stepped = batch(KEY, Version(epoch, 1), 1.0, Receipt("key", "print", 1, (1, 0.5)))
    granting = asyncio.create_task(authority.checkout(other, KEY))
    resetting = asyncio.create_task(authority.reset(other, KEY.run))
    assert await authority.listen(owner) == [KEY]
    await authority.commit(owner, stepped, [KEY])
    await resetting
    granted = await granting
    assert (granted.version.step, granted.state, granted.receipts) == (0, None, ())


@virtual_time
async def test_a_copy_from_before_it_is_void_in_the_next_life_although_who_asked_is_gone():
    store = MemoryStore()
    first = await make_authority(store=store)
    holder, asking = [await join(first, name) for name in ("holder", "asking")]
    granted = await first.checkout(holder, KEY)
    old = batch(KEY, Version(granted.version.epoch, 5))
    await first.commit(holder, old, [KEY])
    await first.reset(asking, KEY.run)  # asked for by a replica that is never heard of again
    first.stop()
    second = await restart(store)
    opened = await join(second, "holder", ClaimPart(released=old))
    assert (await second.checkout(opened, KEY)).version.step == 0
    await second.commit(opened, StateBatch(), [KEY])
    opened = await join(second, "holder", ClaimPart(owned=old))
    grant = await second.checkout(opened, KEY)
    assert (grant.version.step, grant.state) == (0, None)


@virtual_time
async def test_a_copy_that_was_on_its_way_into_the_store_is_void_in_the_next_life():
    """The write behind has taken it up before the reset, and makes it afterwards."""
    store = MemoryStore()
    first = await make_authority(store=store)
    session = await join(first, "a")
    granted = await first.checkout(session, KEY)
    version = Version(granted.version.epoch, 5)
    await first.commit(session, batch(KEY, version), [KEY])
    await first.reset(session, KEY.run)
    first.stop()
    late = Snapshot(version, batch(KEY, version).states.tobytes())
    store.tables[TABLE][f"copy/{KEY.run}/{KEY.entity}"] = late.pack(cluster_stamp("first"))
    second = await restart(store)
    assert (await second.checkout(await join(second, "a"), KEY)).version.step == 0
    await second._snapshots.flush()
    assert not any(row.startswith("copy/") for row in store.tables[TABLE])


@pytest.mark.parametrize("seed", range(10))
@virtual_time
async def test_whenever_the_authority_dies_after_it_nothing_from_before_comes_back(seed):
    options = settings(snapshot_period_s=0.004)
    world = await World(settings=options, seed=seed).start()
    replica = world.replicas[0]
    world.store.latency_s = (0.002, 0.006)
    for _ in range(10):
        await world.predict(replica, KEY)
        await asyncio.sleep(0.002)
    assert (await world.reset(replica, KEY.run)).done is not None
    await asyncio.sleep(seed * 0.001)
    world.kill_replica(replica)
    await world.kill_authority()
    late = await world.add_replica()
    assert (await world.predict(late, KEY)).step == 1
    world.history.check()


@virtual_time
async def test_a_state_that_was_given_back_before_it_stays_void_for_as_long_as_it_is_claimed():
    """Runs that are forgotten early do not shorten the memory of what was given back."""
    world = await World(settings=settings(run_ttl_s=1.0)).start(2)
    first, second = world.replicas
    for _ in range(5):
        await world.predict(first, KEY)
    await world.predict(second, KEY)  # now the first has a copy that it has given back
    await world.reset(second, KEY.run)
    await asyncio.sleep(5)
    await world.kill_authority()
    assert (await world.predict(first, KEY)).step == 1
    world.history.check()


@virtual_time
async def test_one_that_the_store_does_not_take_is_refused_and_leaves_the_states_as_they_are():
    store = MemoryStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    granted = await authority.checkout(session, KEY)
    await authority.commit(session, batch(KEY, Version(granted.version.epoch, 5)), [KEY])
    store.down = True
    with pytest.raises(AuthorityUnavailableError):
        await authority.reset(session, KEY.run)
    grant = await authority.checkout(session, KEY)
    assert grant.version.step == 5


@virtual_time
async def test_one_that_the_store_takes_at_the_second_attempt_is_answered_then():
    world = await World().start(2)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    world.store.down = True
    resetting = asyncio.create_task(world.reset(world.replicas[1], KEY.run))
    await asyncio.sleep(1)
    assert not resetting.done()
    world.store.down = False
    assert (await resetting).done is not None
    for replica in world.replicas:
        asked = await world.predict(replica, KEY)
        assert asked.outcome is Outcome.ANSWERED
    assert asked.step == 2
    world.history.check()


@virtual_time
async def test_what_has_expired_is_not_claimed_back():
    authority = await make_authority(settings(run_ttl_s=1.0))
    session = await join(authority, "a")
    epoch = (await authority.checkout(session, KEY)).version.epoch
    released = batch(KEY, Version(epoch, 5))
    await authority.commit(session, released, [KEY])
    while authority.n_states:
        await authority.listen(session)
        authority.sweep()
    opened = await authority.open_session(Hello("a", 1))
    await authority.claim(opened.session, ClaimPart(released=released))
    assert (await authority.checkout(opened.session, KEY)).version.step == 0


@virtual_time
async def test_two_at_once_do_not_wait_for_each_other():
    authority = await make_authority()
    session = await join(authority, "a")
    await authority.checkout(session, KEY)
    await authority.checkout(session, Key(KEY.run, "other"))
    await authority.commit(session, StateBatch(), [KEY])
    resets = [asyncio.create_task(authority.reset(session, KEY.run)) for _ in range(2)]
    assert await authority.listen(session) == [Key(KEY.run, "other")]
    await authority.commit(session, StateBatch(), [Key(KEY.run, "other")])
    await asyncio.wait_for(asyncio.gather(*resets), 0.1)
