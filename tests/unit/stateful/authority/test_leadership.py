"""Terms follow each other: none acts before its predecessor cannot (invariants 8 and 10)."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.fenced_writer import (
    LeadershipRecord,
    PartitionRetiredError,
    SupersededError,
)
from deployments.stateful.authority.snapshots import Snapshot, snapshot_row
from deployments.stateful.layout import Partition, agree_on_layout
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    ClaimPart,
    DismissedError,
    Hello,
    Key,
    StateBatch,
    Version,
)
from tests.support.states import DictStore
from tests.unit.stateful.authorities import (
    OPTIONS,
    STATE_BYTES,
    TABLE,
    FakeCluster,
    FaultyStore,
    NumberingAuthority,
    batch,
    claim,
    join,
    make_authority,
    next_term,
    now,
    options,
)
from tests.unit.stateful.simulation.scenario import simulated

KEY, OTHER = Key("run", "300839359"), Key("run", "other")
LONG = options(lease_s=2.0)


async def second_term(store: DictStore | FaultyStore, session: str = "first") -> NumberingAuthority:
    """Return an authority whose predecessor may still act."""
    return await make_authority(LONG, store, FakeCluster(session, "node/2/2"))


async def stepped_state(authority: NumberingAuthority, session: int, step: int = 5) -> StateBatch:
    """Check a state out, and return a commit of it."""
    granted = await authority.checkout(session, KEY)
    return batch(KEY, Version(granted.version.epoch, step))


def step_in(store: DictStore | FaultyStore, key: Key = KEY) -> int:
    snapshot = Snapshot.unpack(store.rows[snapshot_row(key)], STATE_BYTES)
    assert snapshot is not None
    return snapshot.version.step


# Beginning


@simulated
async def test_two_terms_never_act_at_the_same_time():
    store, ended = DictStore(), list[BaseException]()
    first = await make_authority(LONG, store, on_end=ended.append)
    await join(first, "a")
    second = await second_term(store)
    starting = asyncio.create_task(second.start())
    acted = []
    while now() < 2 * LONG.leader_lease_s:
        acted.append((first._leadership.may_act(), second._leadership.may_act()))
        await asyncio.sleep(0.001)
    assert set(acted) == {(True, False), (False, False), (False, True)}
    assert [type(error) for error in ended] == [SupersededError]
    await starting


@pytest.mark.parametrize("before", ["may act", "has ended", "stepped down"])
@simulated
async def test_a_term_waits_for_the_leader_lease_of_a_predecessor_that_may_act(before):
    store = DictStore()
    first = await make_authority(LONG, store)
    await first.start()
    if before == "stepped down":
        await first.step_down()
    if before == "has ended":
        second = await next_term(store, LONG)
    else:
        second = await second_term(store)
    began = now()
    await second.start()
    if before == "may act":
        assert LONG.leader_lease_s <= now() - began < LONG.leader_lease_s + 0.5
    else:
        assert now() - began < 0.1


@simulated
async def test_a_process_that_the_cluster_has_replaced_does_not_acquire_the_partition():
    store, cluster = DictStore(), FakeCluster()
    cluster.current = False
    authority = await make_authority(store=store, cluster=cluster)
    rows = dict(store.rows)
    with pytest.raises(AuthorityUnavailableError, match="another state actor"):
        await authority.start()
    assert store.rows == rows


@simulated
async def test_a_failed_start_is_repeated_by_the_next_call():
    store = FaultyStore()
    authority = await make_authority(store=store)
    store.server.down = True
    with pytest.raises(AuthorityUnavailableError):
        await authority.open_session(Hello("a", 1))
    store.server.down = False
    await join(authority, "a")


@simulated
async def test_a_grant_has_a_higher_epoch_than_every_earlier_term():
    store = DictStore()
    first = await make_authority(store=store)
    session = await join(first, "a")
    epochs = [(await first.checkout(session, Key("run", str(n)))).version.epoch for n in range(9)]
    second = await next_term(store)
    session = await join(second, "a")
    assert (await second.checkout(session, KEY)).version.epoch > max(epochs)


# Acting


@simulated
async def test_without_a_leader_lease_every_call_is_refused_and_no_session_ends():
    store, cluster = FaultyStore(), FakeCluster()
    authority = await make_authority(store=store, cluster=cluster)
    session = await join(authority, "a")
    stepped = await stepped_state(authority, session)
    store.server.down, cluster.current = True, None
    await asyncio.sleep(10 * OPTIONS.lease_s)
    rows = dict(store.rows)
    for call in (
        authority.open_session(Hello("a", 1)),
        authority.listen(session),
        authority.checkout(session, OTHER),
        authority.commit(session, stepped, [KEY]),
        authority.reset(session, "run"),
        authority.close_session(session),
    ):
        with pytest.raises(AuthorityUnavailableError):
            await call
    assert store.rows == rows
    assert session in authority._ownership.sessions


@simulated
async def test_a_checkout_that_waits_until_the_leader_lease_has_ended_is_refused():
    store, cluster = FaultyStore(), FakeCluster()
    authority = await make_authority(store=store, cluster=cluster)
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    await authority.checkout(owner, KEY)
    waiting = asyncio.create_task(authority.checkout(other, KEY))
    await asyncio.sleep(0)
    store.server.down, cluster.current = True, None
    await asyncio.sleep(OPTIONS.leader_lease_s + 0.01)
    authority._ownership.release(authority._ownership.sessions[owner].owned[KEY])
    with pytest.raises(AuthorityUnavailableError):
        await waiting


@pytest.mark.parametrize("fault", ["late", "after"])
@simulated
async def test_a_superseded_term_writes_nothing_however_late_its_messages_arrive(fault):
    store, durable = FaultyStore(), options(durability="store_async")
    store.server.late_s = (0.5, 5.0)
    first = await make_authority(durable, store)
    session = await join(first, "a")
    stepped = await stepped_state(first, session)
    setattr(store.server, fault, 1.0)
    calls = [
        asyncio.create_task(call)
        for call in (
            first.commit(session, stepped, [KEY]),
            first.reset(session, "run"),
            first.open_session(Hello("newcomer", 1)),
        )
    ]
    await asyncio.sleep(0.02)
    setattr(store.server, fault, 0.0)
    await (await next_term(store, durable)).start()
    acquired = dict(store.rows)
    await asyncio.sleep(10)
    record = store.rows.pop(Partition().row)
    acquired.pop(Partition().row)
    assert store.rows == acquired
    assert LeadershipRecord.unpack(record).term == 2
    assert all(call.done() for call in calls)


# Stepping down


@simulated
async def test_a_term_that_stepped_down_leaves_every_state_to_the_next_one():
    store = DictStore()
    first = await make_authority(LONG, store)
    session = await join(first, "a")
    await first.commit(session, await stepped_state(first, session), [KEY])
    await first.step_down()
    rows = dict(store.rows)
    for call in (first.open_session(Hello("a", 1)), first.checkout(session, KEY)):
        with pytest.raises(AuthorityUnavailableError):
            await call
    assert store.rows == rows
    second = await second_term(store)
    assert (await second.checkout(await join(second, "a"), KEY)).version.step == 5


@pytest.mark.parametrize(("fault", "ends"), [("down", False), ("after", True)])
@simulated
async def test_a_term_that_cannot_step_down_goes_on_unless_the_store_may_have_it(fault, ends):
    store, ended = FaultyStore(), list[BaseException]()
    first = await make_authority(LONG, store, on_end=ended.append)
    session = await join(first, "a")
    setattr(store.server, fault, 1.0)
    with pytest.raises(AuthorityUnavailableError):
        await first.step_down()
    assert (len(ended) == 1) is ends
    assert first._leadership.may_act() is not ends
    if not ends:
        await first.checkout(session, KEY)


# Retiring a partition


@simulated
async def test_a_partition_is_retired_permanently_with_everything_committed():
    store, ended = DictStore(), list[BaseException]()
    authority = await make_authority(store=store, on_end=ended.append)
    session = await join(authority, "a")
    stepped = await stepped_state(authority, session)
    await authority.reset(session, "another")
    retiring = asyncio.create_task(authority.retire())
    assert await authority.listen(session) == [KEY]
    for call in (authority.checkout(session, OTHER), authority.reset(session, "run")):
        with pytest.raises(DismissedError):
            await call
    await authority.commit(session, stepped, [KEY])
    await retiring
    assert store.rows.keys() == {"layout", snapshot_row(KEY)}
    await asyncio.sleep(5 * OPTIONS.leader_lease_s)
    assert ended == [], "a restart would find no partition"
    again = await make_authority(store=store, partition=Partition())
    with pytest.raises(PartitionRetiredError):
        await again.start()


@simulated
async def test_a_partition_is_retired_after_the_resets_that_have_begun():
    """Each would wait for the states that the other has taken."""
    authority = await make_authority()
    session = await join(authority, "a")
    for key in (KEY, OTHER):
        await authority.checkout(session, key)
    await authority.commit(session, StateBatch(), [KEY])
    resetting = asyncio.create_task(authority.reset(session, KEY.run))
    assert await authority.listen(session) == [OTHER]
    retiring = asyncio.create_task(authority.retire())
    await asyncio.sleep(0.01)
    await authority.commit(session, StateBatch(), [OTHER])
    async with asyncio.timeout(OPTIONS.lease_s):
        await resetting
        await retiring


@simulated
async def test_a_partition_is_retired_after_the_members_of_the_earlier_term_have_claimed():
    store = DictStore()
    first = await make_authority(store=store)
    session, _ = [await join(first, name) for name in "ab"]
    stepped = await stepped_state(first, session)
    await first.commit(session, stepped, [])
    second = await next_term(store)
    retiring = asyncio.create_task(second.retire())
    await asyncio.sleep(0.01)
    with pytest.raises(DismissedError):
        await second.open_session(Hello("newcomer", 1))
    epoch = stepped.versions[0].epoch
    claiming = asyncio.create_task(claim(second, "a", ClaimPart(batch(KEY, Version(epoch, 6)))))
    await asyncio.sleep(0.01)
    await join(second, "b")
    session, claimed = await claiming
    assert claimed.lost == []
    assert await second.listen(session) == [KEY]
    await second.commit(session, batch(KEY, Version(epoch, 7)), [KEY])
    await retiring
    assert step_in(store) == 7


@pytest.mark.parametrize("late", ["owned", "released", "taken"])
@simulated
async def test_a_claim_while_the_last_snapshots_are_written_is_kept_unless_it_is_of_a_taken_state(
    late,
):
    store = FaultyStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    stepped = await stepped_state(authority, session)
    retiring = asyncio.create_task(authority.retire())
    await authority.listen(session)
    store.latency_s = 0.05
    await authority.commit(session, stepped, [KEY])
    await asyncio.sleep(0.02)
    states = stepped if late == "taken" else batch(OTHER, Version(1 << 64, 3))
    part = ClaimPart(released=states) if late == "released" else ClaimPart(states)
    session, claimed = await claim(authority, "a", part)
    assert claimed.lost == ([KEY] if late == "taken" else [])
    if late == "owned":
        assert await authority.listen(session) == [OTHER]
        await authority.commit(session, StateBatch(), [OTHER])
    await retiring
    expected = {snapshot_row(KEY)} if late == "taken" else {snapshot_row(KEY), snapshot_row(OTHER)}
    assert store.snapshots == expected


@simulated
async def test_a_partition_that_could_not_be_retired_is_retired_by_the_next_attempt():
    store = FaultyStore()
    authority = await make_authority(store=store)
    await authority.start()
    store.server.down = True
    with pytest.raises(AuthorityUnavailableError):
        await authority.retire()
    store.server.down = False
    await authority.retire()
    assert Partition().row not in store.rows


# The next layout


@simulated
async def test_a_later_layout_acts_after_the_partitions_of_earlier_ones_are_retired():
    store, two = DictStore(), options(shards=2)
    first = await make_authority(store=store)
    session = await join(first, "a")
    stepped = await stepped_state(first, session)
    await first.commit(session, stepped, [KEY])
    layout = await agree_on_layout(store, TABLE, two, "test")
    partition = next(each for each in layout.partitions if each.has(KEY))
    cluster = FakeCluster(process="node/2/2")
    later = await make_authority(two, store, cluster, partition)
    starting = asyncio.create_task(later.start())
    await asyncio.sleep(0.5)
    assert not starting.done()
    assert set(cluster.retire_calls) == {Partition()}
    await first.retire()
    await starting
    session, _ = await claim(later, "b", generation=2)
    granted = await later.checkout(session, KEY)
    assert granted.version.step == 5
    assert granted.version.epoch > stepped.versions[0].epoch


@simulated
async def test_a_grant_has_a_higher_epoch_than_every_earlier_layout():
    """The later layout finds no snapshot of a state that was granted and not stepped."""
    store, two = DictStore(), options(shards=2)
    first = await make_authority(store=store)
    session = await join(first, "a")
    before = await first.checkout(session, KEY)
    await first.commit(session, StateBatch(), [KEY])
    await first.retire()
    layout = await agree_on_layout(store, TABLE, two, "test")
    partition = next(each for each in layout.partitions if each.has(KEY))
    later = await make_authority(two, store, FakeCluster(process="node/2/2"), partition)
    session, _ = await claim(later, "b", generation=2)
    assert (await later.checkout(session, KEY)).version.epoch > before.version.epoch


@simulated
async def test_a_new_term_of_an_earlier_layout_does_not_wait_for_its_own_layout():
    """The later layout waits for it. If it waited for itself, neither would ever act."""
    store, two = DictStore(), options(shards=2)
    earlier = await agree_on_layout(store, TABLE, two, "test")
    layout = await agree_on_layout(store, TABLE, OPTIONS, "test")
    assert layout.earlier == tuple(earlier.partitions)
    cluster = FakeCluster()
    authority = await make_authority(two, store, cluster, earlier.partitions[0])
    async with asyncio.timeout(OPTIONS.leader_lease_s):
        await authority.start()
    assert cluster.retire_calls == []


@simulated
async def test_partitions_of_another_start_of_the_cluster_are_removed():
    store = DictStore()
    await (await make_authority(store=store)).start()
    layout = await agree_on_layout(store, TABLE, options(shards=2), "test")
    cluster = FakeCluster("second", "node/2/2")
    cluster.ended = {"node/1/1"}
    authority = await make_authority(options(shards=2), store, cluster, layout.partitions[0])
    await authority.start()
    assert cluster.retire_calls == []
    assert Partition().row not in store.rows
