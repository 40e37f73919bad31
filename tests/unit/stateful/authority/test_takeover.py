"""One life after the other: none acts before its predecessor is at an end (invariants 8 and 10)."""

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
    PROTOCOL,
    AuthorityUnavailableError,
    ClaimPart,
    DismissedError,
    Hello,
    Key,
    StateBatch,
    Version,
)
from tests.unit.stateful.authorities import (
    STATE_BYTES,
    TABLE,
    FakeCluster,
    NumberingAuthority,
    batch,
    join,
    make_authority,
    now,
    restart,
)
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST, settings
from tests.unit.stateful.virtual_time import virtual_time

KEY = Key("run", "300839359")
LONG = settings(lease_s=2.0)


async def second_life(store: MemoryStore, **cluster: object) -> NumberingAuthority:
    """Make a life whose predecessor may still act."""
    fake = FakeCluster(process="node/2/2", **cluster)  # type: ignore[arg-type]
    return await make_authority(LONG, store, fake)


def snapshot(store: MemoryStore) -> dict[str, bytes]:
    return dict(store.tables[TABLE])


@virtual_time
async def test_two_lives_at_once_never_act_at_the_same_time():
    store = MemoryStore()
    ended: list[BaseException] = []
    first = await make_authority(LONG, store, on_end=ended.append)
    session = await join(first, "a")
    await first.checkout(session, KEY)
    second = await second_life(store)
    starting = asyncio.create_task(second.start())
    acted = {"first": 0, "second": 0}
    while now() < 2 * LONG.leader_lease_s:
        may_act = (first._leadership.may_act(), second._leadership.may_act())
        assert may_act != (True, True)
        acted["first"] += may_act[0]
        acted["second"] += may_act[1]
        await asyncio.sleep(0.001)
    assert acted["first"] > 0
    assert acted["second"] > 0
    assert [type(error) for error in ended] == [SupersededError]
    await starting


@virtual_time
async def test_a_life_whose_predecessor_may_act_waits_for_the_end_of_its_tenure():
    store = MemoryStore()
    await (await make_authority(LONG, store)).start()
    second = await second_life(store)
    before = now()
    await second.start()
    assert now() - before >= LONG.leader_lease_s


@pytest.mark.parametrize("known", ["its process has ended", "it was of another cluster"])
@virtual_time
async def test_a_life_whose_predecessor_has_ended_begins_at_once(known):
    store = MemoryStore()
    await (await make_authority(LONG, store)).start()
    if known == "its process has ended":
        second = await restart(store, LONG)
    else:
        second = await second_life(store, session="second")
    before = now()
    await second.start()
    assert now() - before < 0.1


@virtual_time
async def test_after_a_life_that_stepped_down_the_next_one_begins_at_once_with_every_state():
    store = MemoryStore()
    first = await make_authority(LONG, store)
    session = await join(first, "a")
    granted = await first.checkout(session, KEY)
    stepped = batch(KEY, Version(granted.version.epoch, 1))
    await first.commit(session, stepped, [KEY])
    await first.step_down()
    second = await second_life(store)
    before = now()
    again = await join(second, "a")
    assert (await second.checkout(again, KEY)).version.step == 1
    assert now() - before < 0.1


@virtual_time
async def test_a_life_that_has_stepped_down_hears_nobody():
    store, cluster = MemoryStore(), FakeCluster()
    first = await make_authority(LONG, store, cluster)
    session = await join(first, "a")
    await first.step_down()
    rows = snapshot(store)
    for call in (first.open_session(Hello("a", 1)), first.checkout(session, KEY)):
        with pytest.raises(AuthorityUnavailableError):
            await call
    assert snapshot(store) == rows


@virtual_time
async def test_without_its_store_a_life_does_not_step_down_but_goes_on():
    store = MemoryStore()
    first = await make_authority(LONG, store)
    session = await join(first, "a")
    store.down = True
    with pytest.raises(AuthorityUnavailableError):
        await first.step_down()
    await first.checkout(session, KEY)


@virtual_time
async def test_a_life_that_cannot_tell_whether_it_has_stepped_down_ends():
    store = MemoryStore()
    ended: list[BaseException] = []
    first = await make_authority(LONG, store, on_end=ended.append)
    await join(first, "a")
    store.lost_reply = 1.0
    with pytest.raises(AuthorityUnavailableError):
        await first.step_down()
    assert len(ended) == 1
    assert not first._leadership.may_act()


@virtual_time
async def test_a_life_whose_tenure_is_over_grants_commits_and_resets_nothing():
    store, cluster = MemoryStore(), FakeCluster()
    authority = await make_authority(FAST, store, cluster)
    session = await join(authority, "a")
    granted = await authority.checkout(session, KEY)
    store.down, cluster.current = True, None
    await asyncio.sleep(FAST.leader_lease_s + 0.01)
    rows = snapshot(store)
    stepped = batch(KEY, Version(granted.version.epoch, 1))
    for call in (
        authority.open_session(Hello("a", 1)),
        authority.listen(session),
        authority.checkout(session, Key("run", "other")),
        authority.commit(session, stepped, [KEY]),
        authority.reset(session, "run"),
        authority.close_session(session),
    ):
        with pytest.raises(AuthorityUnavailableError):
            await call
    assert snapshot(store) == rows


@virtual_time
async def test_a_grant_that_was_waited_for_until_the_tenure_is_over_is_not_made():
    store, cluster = MemoryStore(), FakeCluster()
    authority = await make_authority(settings(lease_s=5.0), store, cluster)
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    await authority.checkout(owner, KEY)
    waiting = asyncio.create_task(authority.checkout(other, KEY))
    resetting = asyncio.create_task(authority.reset(other, "another run"))
    await resetting
    store.down, cluster.current = True, None
    await asyncio.sleep(5.01)
    authority._ownership.release(authority._ownership.sessions[owner].owned[KEY])
    with pytest.raises(AuthorityUnavailableError):
        await waiting


@virtual_time
async def test_nobodys_lease_is_ended_while_the_tenure_is_uncertain():
    store, cluster = MemoryStore(), FakeCluster()
    authority = await make_authority(FAST, store, cluster)
    session = await join(authority, "a")
    await authority.checkout(session, KEY)
    store.down, cluster.current = True, None
    await asyncio.sleep(10 * FAST.lease_s)
    assert session in authority._ownership.sessions


@pytest.mark.parametrize("kind", ["late", "lost_reply"])
@virtual_time
async def test_a_succeeded_life_writes_nothing_however_late_its_messages_arrive(kind):
    store = MemoryStore(late_s=5.0)
    first = await make_authority(settings(durability="store_async"), store)
    session = await join(first, "a")
    granted = await first.checkout(session, KEY)
    setattr(store, kind, 1.0)
    calls = [
        asyncio.create_task(call)
        for call in (
            first.commit(session, batch(KEY, Version(granted.version.epoch, 9)), [KEY]),
            first.reset(session, "run"),
            first.open_session(Hello("newcomer", 1)),
        )
    ]
    await asyncio.sleep(0.05)
    setattr(store, kind, 0.0)
    second = await restart(store, settings(durability="store_async"))
    await second.start()
    taken = snapshot(store)
    await asyncio.wait(calls, timeout=20)
    await asyncio.sleep(10)
    written = snapshot(store)
    # only the second life has written since: its own row, and nothing of the first's
    assert {row: value for row, value in written.items() if row != Partition().row} == {
        row: value for row, value in taken.items() if row != Partition().row
    }
    assert LeadershipRecord.unpack(written[Partition().row]).term == 2
    assert all(call.done() for call in calls)


@virtual_time
async def test_a_process_that_the_cluster_has_replaced_does_not_take_the_seat():
    store, cluster = MemoryStore(), FakeCluster()
    cluster.current = False
    authority = await make_authority(FAST, store, cluster)
    rows = snapshot(store)
    with pytest.raises(AuthorityUnavailableError, match="another state actor"):
        await authority.start()
    assert snapshot(store) == rows


@virtual_time
async def test_a_start_that_failed_is_tried_again_by_the_next_call():
    store = MemoryStore()
    authority = await make_authority(FAST, store)
    store.down = True
    with pytest.raises(AuthorityUnavailableError):
        await authority.open_session(Hello("a", 1))
    store.down = False
    await join(authority, "a")


# Layouts and protocols


@virtual_time
async def test_a_replica_of_another_protocol_is_refused_with_both_versions():
    authority = await make_authority()
    with pytest.raises(DismissedError, match=rf"version {PROTOCOL + 1} .* version {PROTOCOL}\."):
        await authority.open_session(Hello("a", 1, protocol=PROTOCOL + 1))


@virtual_time
async def test_a_replica_of_another_layout_is_refused():
    authority = await make_authority()
    with pytest.raises(DismissedError, match="another layout"):
        await authority.open_session(Hello("a", generation=2))


@virtual_time
async def test_a_seat_is_given_up_with_all_that_was_committed_and_for_good():
    store = MemoryStore()
    ended: list[BaseException] = []
    cluster = FakeCluster()
    authority = await make_authority(store=store, cluster=cluster, on_end=ended.append)
    session = await join(authority, "a")
    granted = await authority.checkout(session, KEY)
    await authority.reset(session, "another")
    retiring = asyncio.create_task(authority.retire())
    assert await authority.listen(session) == [KEY]
    assert not retiring.done()
    with pytest.raises(DismissedError):
        await authority.checkout(session, Key("run", "other"))
    with pytest.raises(DismissedError):
        await authority.reset(session, "run")
    await authority.commit(session, batch(KEY, Version(granted.version.epoch, 5)), [KEY])
    await retiring
    assert snapshot(store).keys() == {"layout", f"copy/{KEY.run}/{KEY.entity}"}
    await asyncio.sleep(5 * FAST.leader_lease_s)
    assert ended == [], "it leaves by itself; a restart would find no partition"
    with pytest.raises(PartitionRetiredError):
        await (await restart_in(store, Partition())).start()


@virtual_time
async def test_a_seat_is_given_up_after_the_resets_that_have_begun():
    """Each would wait for ever for the states that the other has."""
    authority = await make_authority()
    session = await join(authority, "a")
    free, owned = KEY, Key(KEY.run, "other")
    for key in (free, owned):
        await authority.checkout(session, key)
    await authority.commit(session, StateBatch(), [free])
    resetting = asyncio.create_task(authority.reset(session, KEY.run))
    assert await authority.listen(session) == [owned]
    retiring = asyncio.create_task(authority.retire())
    await asyncio.sleep(0.01)
    await authority.commit(session, StateBatch(), [owned])
    async with asyncio.timeout(5 * FAST.lease_s):
        await resetting
        await retiring


@virtual_time
async def test_members_of_the_earlier_life_are_heard_while_the_seat_is_given_up():
    store = MemoryStore()
    first = await make_authority(store=store)
    session = await join(first, "a")
    granted = await first.checkout(session, KEY)
    await first.commit(session, batch(KEY, Version(granted.version.epoch, 5)), [])
    first.stop()
    second = await restart(store)
    retiring = asyncio.create_task(second.retire())
    await asyncio.sleep(0.01)
    with pytest.raises(DismissedError):
        await second.open_session(Hello("newcomer", 1))
    newer = batch(KEY, Version(granted.version.epoch, 6), 6.0)
    session = await join(second, "a", ClaimPart(newer))
    assert await second.listen(session) == [KEY]
    await second.commit(session, batch(KEY, Version(granted.version.epoch, 7), 7.0), [KEY])
    await retiring
    copy = Snapshot.unpack(store.tables[TABLE][snapshot_row(KEY)], STATE_BYTES)
    assert copy is not None
    assert copy.version.step == 7


@virtual_time
async def test_a_seat_that_is_given_up_takes_no_state_before_every_claim_is_settled():
    store = MemoryStore()
    first = await make_authority(store=store)
    a, _ = [await join(first, name) for name in "ab"]
    epoch = (await first.checkout(a, KEY)).version.epoch
    await first.commit(a, batch(KEY, Version(epoch, 5)), [])
    first.stop()
    second = await restart(store)
    retiring = asyncio.create_task(second.retire())
    await asyncio.sleep(0.01)
    opened = await second.open_session(Hello("a", 1))
    claiming = asyncio.create_task(
        second.claim(opened.session, ClaimPart(batch(KEY, Version(epoch, 6))))
    )
    await asyncio.sleep(0.01)
    await join(second, "b")
    assert (await claiming).lost == []
    assert await second.listen(opened.session) == [KEY]
    await second.commit(opened.session, StateBatch(), [KEY])
    await retiring


@virtual_time
async def test_what_is_claimed_while_the_last_copies_are_written_is_kept_as_well():
    store = MemoryStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    await authority.checkout(session, KEY)
    retiring = asyncio.create_task(authority.retire())
    await authority.listen(session)
    store.latency_s = (0.05, 0.05)
    await authority.commit(session, batch(KEY, authority._table.obtain(KEY).version), [KEY])
    await asyncio.sleep(0.02)
    other = Key("run", "other")
    part = ClaimPart(StateBatch(), batch(other, Version(1 << 64, 3)))
    opened = await authority.open_session(Hello("a", 1))
    assert (await authority.claim(opened.session, part)).lost == []
    await retiring
    assert store.tables[TABLE].keys() == {"layout", snapshot_row(KEY), snapshot_row(other)}


@virtual_time
async def test_what_a_seat_that_is_given_up_has_taken_is_not_claimed_back():
    store = MemoryStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    version = (await authority.checkout(session, KEY)).version
    stepped = batch(KEY, Version(version.epoch, 1))
    await authority.commit(session, stepped, [])
    retiring = asyncio.create_task(authority.retire())
    await authority.listen(session)
    store.latency_s = (0.2, 0.2)
    await authority.commit(session, StateBatch(), [KEY])
    opened = await authority.open_session(Hello("a", 1))
    assert (await authority.claim(opened.session, ClaimPart(stepped))).lost == [KEY]
    await retiring


@virtual_time
async def test_a_seat_that_the_store_did_not_let_go_is_given_up_by_the_next_attempt():
    store = MemoryStore()
    authority = await make_authority(store=store)
    await authority.start()
    store.down = True
    with pytest.raises(AuthorityUnavailableError):
        await authority.retire()
    store.down = False
    await authority.retire()
    assert Partition().row not in store.tables[TABLE]


async def restart_in(store: MemoryStore, partition: Partition) -> NumberingAuthority:
    return await make_authority(FAST, store, FakeCluster(process="node/2/2"), partition)


@virtual_time
async def test_a_seat_of_a_later_layout_acts_when_the_earlier_ones_are_given_up():
    store = MemoryStore()
    first = await make_authority(store=store)
    session = await join(first, "a")
    granted = await first.checkout(session, KEY)
    await first.commit(session, batch(KEY, Version(granted.version.epoch, 5)), [])
    layout = await agree_on_layout(store, TABLE, settings(shards=2), "test")
    partition = next(partition for partition in layout.partitions if partition.has(KEY))
    cluster = FakeCluster(process="node/2/2")
    later = await make_authority(settings(shards=2), store, cluster, partition)
    starting = asyncio.create_task(later.start())
    await asyncio.sleep(0.5)
    assert not starting.done()
    assert set(cluster.asked_to_retire) == {Partition()}
    session = await join(first, "a")  # its lease ran out meanwhile
    await first.commit(session, StateBatch(), [KEY])
    await first.retire()
    await starting
    opened = await later.open_session(Hello("b", 2))
    await later.claim(opened.session, ClaimPart())
    grant = await later.checkout(opened.session, KEY)
    assert grant.version.step == 5
    assert grant.version.epoch > granted.version.epoch


@virtual_time
async def test_a_new_life_on_an_earlier_seat_waits_for_no_seat_of_its_own_layout():
    """The later layout waits for it; were it to wait for itself, nobody would ever act."""
    store, two = MemoryStore(), settings(shards=2)
    earlier = await agree_on_layout(store, TABLE, two, "test")
    for partition in earlier.partitions:
        first = await make_authority(two, store, partition=partition)
        await first.start()
        first.stop()
    assert (await agree_on_layout(store, TABLE, FAST, "test")).earlier == tuple(earlier.partitions)
    cluster = FakeCluster(process="node/2/2")
    cluster.ended = {"node/1/1"}
    again = await make_authority(two, store, cluster, earlier.partitions[0])
    async with asyncio.timeout(FAST.leader_lease_s):
        await again.start()
    assert cluster.asked_to_retire == []


@virtual_time
async def test_seats_that_another_cluster_has_left_are_not_waited_for():
    store = MemoryStore()
    await (await make_authority(store=store)).start()
    layout = await agree_on_layout(store, TABLE, settings(shards=2), "test")
    cluster = FakeCluster(session="second")
    await (await make_authority(settings(shards=2), store, cluster, layout.partitions[0])).start()
    assert cluster.asked_to_retire == []
    assert Partition().row not in store.tables[TABLE]
