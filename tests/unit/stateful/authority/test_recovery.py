"""What a new life takes back from the replicas and from the store, and whom it waits for."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.stateful.authority.fenced_writer import SupersededError
from deployments.stateful.authority.snapshots import snapshot_row
from deployments.stateful.protocol import (
    Claimed,
    ClaimPart,
    Hello,
    Key,
    Receipt,
    StateBatch,
    Version,
)
from deployments.stateful.replica import claims
from tests.unit.stateful.authorities import (
    TABLE,
    FakeCluster,
    batch,
    join,
    make_authority,
    now,
    restart,
    value_of,
)
from tests.unit.stateful.lineage import Outcome
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST, settings
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import World, gather, until

KEY = Key("run", "300839359")
NEVER_BY_ITSELF = settings(snapshot_period_s=1000.0)


@virtual_time
async def test_states_without_an_owner_continue_from_their_copies():
    world = await World(settings=NEVER_BY_ITSELF).start(1)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    await world.replicas[0].engine.close()
    await world.kill_authority()
    late = await world.add_replica()
    assert (await world.predict(late, KEY)).step == 4
    world.history.check()


@virtual_time
async def test_a_new_life_tells_whom_it_has_heard_and_what_it_has(caplog):
    caplog.set_level("INFO", logger="ray.serve")
    world = await World().start(3)
    for n, replica in enumerate(world.replicas):
        await world.predict(replica, Key(f"run-{n}", KEY.entity))
    await asyncio.sleep(2 * FAST.snapshot_period_s)
    world.kill_replica(world.replicas[2], noticed_after_s=0)
    await world.kill_authority()
    await world.predict(world.replicas[0], Key("run-0", KEY.entity))
    await until(lambda: any("acts in term 2" in told for told in caplog.messages))
    (told,) = (told for told in caplog.messages if "acts in term 2" in told)
    assert told.endswith("2 replicas claimed, 1 were dead, 0 were late; 3 hidden states")


@virtual_time
async def test_an_owner_knows_better_than_the_copy():
    world = await World().start(1)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(2 * FAST.snapshot_period_s)
    for _ in range(3):
        await world.predict(world.replicas[0], KEY)
    await world.kill_authority()
    assert (await world.predict(world.replicas[0], KEY)).step == 7
    world.history.check()


@virtual_time
async def test_a_dead_owners_state_is_copied_as_soon_as_it_is_free():
    world = await World(settings=NEVER_BY_ITSELF).start(2)
    await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(0.02)
    world.kill_replica(world.replicas[0], noticed_after_s=None)
    await asyncio.sleep(0.4)
    await world.kill_authority()
    assert (await world.predict(world.replicas[1], KEY)).step == 2
    world.history.check()


@virtual_time
async def test_in_durable_strict_mode_nothing_answered_is_lost_with_authority_and_replica():
    durable = settings(durability="store", snapshot_period_s=1000.0)
    world = await World(settings=durable).start(2)
    for step in range(1, 6):
        assert (await world.predict(world.replicas[0], KEY)).step == step
    world.kill_replica(world.replicas[0])
    await world.kill_authority()
    assert (await world.predict(world.replicas[1], KEY)).step == 6
    world.history.check()


@pytest.mark.parametrize(("restore", "step"), [(True, 4), (False, 1)])
@virtual_time
async def test_a_full_restart_continues_when_the_configuration_says_so(restore, step):
    before = await World().start()
    for _ in range(3):
        await before.predict(before.replicas[0], KEY)
    await asyncio.sleep(2 * FAST.snapshot_period_s)
    before.shards[0].stop()
    before.replicas[0].kill()
    options = settings(restore_after_restart=restore)
    after = await World(store=before.store, session="second", settings=options).start()
    after.model = after.replicas[0].model = before.model
    assert (await after.predict(after.replicas[0], KEY)).step == step


@virtual_time
async def test_a_store_that_is_slow_to_read_delays_grants_and_loses_no_claim():
    world = await World().start(2)
    owner, other = world.replicas
    for _ in range(5):
        await world.predict(owner, KEY)
    world.store.latency_s = (0.4, 0.4)  # longer than a lease and its margin
    await world.kill_authority()
    asked = await world.predict(other, KEY)
    assert asked.outcome is not Outcome.PENDING
    world.store.latency_s = (0.001, 0.001)
    assert (await world.predict(other, KEY)).outcome is Outcome.ANSWERED
    world.history.check()


@virtual_time
async def test_copies_beyond_the_cap_are_kept():
    store = MemoryStore()
    first = await make_authority(store=store)
    for n in range(5):
        await join(
            first, f"replica-{n}", ClaimPart(released=batch(Key(f"{n}", "1"), Version(1, 1)))
        )
    await first._snapshots.flush()
    first.stop()
    second = await restart(store, settings(max_states=2))
    await second.start()
    assert second.n_states == 5


@virtual_time
async def test_applications_that_share_a_store_keep_their_states_apart():
    world = await World().start()
    await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(2 * FAST.snapshot_period_s)
    assert list(world.store.tables) == ["states:test"], "one table for each application"


@virtual_time
async def test_a_given_back_state_that_only_its_last_owner_remembers_is_restored_with_receipts():
    receipt = Receipt("key", "print", 100, (1, 0.5))
    authority = await make_authority(settings())
    await join(authority, "a", ClaimPart(released=batch(KEY, Version(7, 100), 0.5, receipt)))
    grant = await authority.checkout(await join(authority, "b"), KEY)
    assert (grant.version.step, grant.receipts) == (100, (receipt,))


# Claims in parts


@virtual_time
async def test_of_an_outline_only_what_the_store_does_not_have_is_asked_for():
    store = MemoryStore()
    first = await make_authority(store=store)
    session = await join(first, "owner")
    stored, newer, zeros = (Key("run", name) for name in ("stored", "newer", "zeros"))
    versions = {key: (await first.checkout(session, key)).version for key in (stored, newer, zeros)}
    for key in (stored, newer):
        states = batch(key, Version(versions[key].epoch, 5), 5.0)
        await first.commit(session, states, [])
    await asyncio.sleep(2 * FAST.snapshot_period_s)
    first.stop()
    second = await restart(store)
    opened = await second.open_session(Hello("owner", 1))
    named = {stored: 5, newer: 6, zeros: 0}
    outline = StateBatch(
        list(named),
        [Version(versions[key].epoch, step) for key, step in named.items()],
        np.empty((3, 0), np.uint8),
    )
    part = ClaimPart(outline, last=False)
    claimed = await second.claim(opened.session, part)
    assert claimed == Claimed(wanted=[newer, zeros])
    states = batch(newer, Version(versions[newer].epoch, 6), 6.0)
    claimed = await second.claim(opened.session, ClaimPart(states))
    assert claimed == Claimed(lost=[zeros])
    other = await join(second, "other")
    waiting = asyncio.create_task(second.checkout(other, stored))
    await asyncio.sleep(0)
    await second.commit(opened.session, StateBatch(), [stored])
    granted = await waiting
    assert granted.version.step == 5
    assert value_of(granted.state) == 5.0


@virtual_time
async def test_many_states_are_claimed_over_a_network_that_is_slower_than_the_lease(monkeypatch):
    monkeypatch.setattr(claims, "STATES_PER_PART", 20)
    monkeypatch.setattr(claims, "NAMES_PER_PART", 20)
    slow = settings(lease_s=0.5)
    world = await World(settings=slow).start(2)
    owner, other = world.replicas
    keys = [Key(f"run-{n}", "300839359") for n in range(350)]
    await gather(*(world.predict(owner, key) for key in keys))
    await asyncio.sleep(0.1)
    world.network.latency_s = (0.06, 0.06)
    restarted = now()
    await world.kill_authority()
    await until(lambda: owner.engine.counts.sessions == 2)
    n_parts = -(-len(keys) // 20)
    assert now() - restarted > 2 * 0.06 * n_parts > slow.lease_s + slow.lease_margin_s
    assert all(owner.engine.leases_of(KEY).owned(key) is not None for key in keys)
    world.network.latency_s = (0.0002, 0.001)
    assert (await world.predict(owner, keys[0])).step == 2
    assert (await world.predict(other, keys[-1])).step == 2
    world.history.check()


@virtual_time
async def test_a_life_that_was_succeeded_does_not_go_on_without_members_that_were_led_elsewhere():
    """Who was led to the later life has steps that this one never hears of."""
    store, cluster = MemoryStore(), FakeCluster(process="node/2/2")
    await join(await make_authority(store=store), "led elsewhere")
    cluster.ended = {"node/1/1"}
    ended: list[BaseException] = []
    second = await make_authority(store=store, cluster=cluster, on_end=ended.append)
    await second.start()
    cluster.current = False
    claim = asyncio.create_task(join(second, "newcomer"))
    await until(lambda: bool(ended))
    assert isinstance(ended[0], SupersededError)
    assert not claim.done()
    claim.cancel()


@virtual_time
async def test_members_are_waited_for_while_nobody_can_tell_where_they_are_led():
    store, cluster = MemoryStore(), FakeCluster(process="node/2/2")
    first = await make_authority(store=store)
    epoch = (await first.checkout(await join(first, "owner"), KEY)).version.epoch
    cluster.ended = {"node/1/1"}
    second = await make_authority(store=store, cluster=cluster)
    await second.start()
    cluster.current = None
    waiting = asyncio.create_task(join(second, "newcomer"))
    await asyncio.sleep(5 * FAST.lease_s)
    assert not waiting.done()
    owner = asyncio.create_task(join(second, "owner", ClaimPart(batch(KEY, Version(epoch, 9)))))
    newcomer = await waiting
    await second.commit(await owner, StateBatch(), [KEY])
    assert (await second.checkout(newcomer, KEY)).version.step == 9


@virtual_time
async def test_nothing_is_granted_between_the_parts_of_a_claim():
    store = MemoryStore()
    first = await make_authority(store=store)
    owner = await join(first, "owner")
    epoch = (await first.checkout(owner, KEY)).version.epoch
    second = await restart(store)
    newcomer = await join(second, "newcomer")
    opened = await second.open_session(Hello("owner", 1))
    waiting = asyncio.create_task(second.checkout(newcomer, KEY))
    for _ in range(10):
        await asyncio.sleep(FAST.lease_s * 0.5)
        await second.claim(opened.session, ClaimPart(last=False))
        await second.listen(newcomer)
        assert not waiting.done()
    owned = batch(KEY, Version(epoch, 9))
    await second.claim(opened.session, ClaimPart(owned))
    await second.commit(opened.session, StateBatch(), [KEY])
    assert (await waiting).version.step == 9


@virtual_time
async def test_nothing_is_reset_while_a_claim_is_on_its_way():
    """Its sender may step by an earlier lease what nobody owns here yet."""
    store = MemoryStore()
    first = await make_authority(store=store)
    version = (await first.checkout(await join(first, "owner"), KEY)).version
    second = await restart(store)
    newcomer = await join(second, "newcomer")
    opened = await second.open_session(Hello("owner", 1))
    resetting = asyncio.create_task(second.reset(newcomer, KEY.run))
    await second.claim(opened.session, ClaimPart(batch(KEY, version), last=False))
    await asyncio.sleep(FAST.lease_s / 2)
    assert not resetting.done()
    await second.claim(opened.session, ClaimPart())
    assert await second.listen(opened.session) == [KEY]
    await second.commit(opened.session, StateBatch(), [KEY])
    await resetting


@virtual_time
async def test_nothing_is_granted_between_the_last_claim_and_its_settlement():
    """Whoever waits longest would be first, and take the state from a replica that steps it."""
    store = MemoryStore()
    first = await make_authority(store=store)
    owner, _ = [await join(first, name) for name in ("owner", "another")]
    epoch = (await first.checkout(owner, KEY)).version.epoch
    second = await restart(store)
    newcomer = await join(second, "newcomer")  # after the members' leases
    owner, another = [
        (await second.open_session(Hello(name, 1))).session for name in ("owner", "another")
    ]
    granting = asyncio.create_task(second.checkout(newcomer, KEY))
    await asyncio.sleep(0.01)
    claiming = asyncio.create_task(second.claim(owner, ClaimPart(batch(KEY, Version(epoch, 9)))))
    await asyncio.sleep(0.01)
    await second.claim(another, ClaimPart())
    assert await claiming == Claimed()
    assert await second.listen(owner) == [KEY]
    assert not granting.done()
    await second.commit(owner, batch(KEY, Version(epoch, 10)), [KEY])
    assert (await granting).version.step == 10


@virtual_time
async def test_what_a_claim_did_not_name_is_free_when_its_last_part_is_there():
    authority = await make_authority()
    session = await join(authority, "a")
    await authority.checkout(session, KEY)
    session = await join(authority, "a")
    assert authority._ownership.sessions[session].owned == {}
    assert (await authority.checkout(await join(authority, "b"), KEY)).version.step == 0


@virtual_time
async def test_a_replica_whose_lease_ran_out_keeps_what_nobody_was_granted_since():
    authority = await make_authority()
    session = await join(authority, "a")
    granted = [(await authority.checkout(session, Key("run", str(n)))).version for n in range(3)]
    await asyncio.sleep(2 * (FAST.lease_s + FAST.lease_margin_s))
    other = await join(authority, "b")
    await authority.checkout(other, Key("run", "0"))
    await authority.commit(other, StateBatch(), [Key("run", "0")])
    keys = [Key("run", str(n)) for n in range(3)]
    versions = [Version(each.epoch, 7) for each in granted]
    states = StateBatch(keys, versions, np.ones((3, 512), np.uint8))
    opened = await authority.open_session(Hello("a", 1))
    claimed = await authority.claim(opened.session, ClaimPart(owned=states))
    assert claimed == Claimed(lost=keys[:1])
    assert set(authority._ownership.sessions[opened.session].owned) == set(keys[1:])


@virtual_time
async def test_a_claim_changes_nothing_of_a_state_that_another_replica_owns():
    authority = await make_authority()
    owner = await join(authority, "owner")
    granted = await authority.checkout(owner, KEY)
    opened = await authority.open_session(Hello("other", 1))
    later = ClaimPart(batch(KEY, Version(2**90, 99), 9.0))
    assert (await authority.claim(opened.session, later)).lost == [KEY]
    states = batch(KEY, Version(granted.version.epoch, 1))
    assert await authority.commit(owner, states, []) == []


@virtual_time
async def test_a_step_offered_after_the_next_owner_was_chosen_is_lost_and_said_to_be_so():
    """The choice stands although the grant, and its epoch, wait for the store."""
    store = MemoryStore()
    authority = await make_authority(settings(durability="store_async"), store)
    late, other = await join(authority, "late"), await join(authority, "other")
    epoch = (await authority.checkout(late, KEY)).version.epoch
    store.latency_s = (0.6, 0.6)
    receipt = Receipt("key", "print", 3, (1, 0.5))
    states = batch(KEY, Version(epoch, 3), 3.0, receipt)
    committing = asyncio.create_task(authority.commit(late, states, []))
    granting = asyncio.create_task(authority.checkout(other, KEY))
    for _ in range(3):
        await asyncio.sleep(FAST.lease_s / 2)
        await authority.listen(other)
    opened = await authority.open_session(Hello("late", 1))
    part = ClaimPart(released=batch(KEY, Version(epoch, 4), 4.0))
    claimed = await authority.claim(opened.session, part)
    assert claimed.lost == [KEY]
    assert (await granting).version.step == 3
    await committing


@virtual_time
async def test_a_claimed_state_that_nobody_owns_is_in_the_store_soon():
    store = MemoryStore()
    authority = await make_authority(NEVER_BY_ITSELF, store)
    await join(authority, "a", ClaimPart(released=batch(KEY, Version(7, 100))))
    await asyncio.sleep(0.1)
    assert snapshot_row(KEY) in store.tables[TABLE]
