"""Resets and expiry: which epochs are void, for how long, and what is cleared (invariant 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from deployments.stateful.authority import eviction
from deployments.stateful.authority.eviction import KeyedLocks, Resets
from deployments.stateful.authority.fenced_writer import FencedWriter, SupersededError
from deployments.stateful.authority.snapshots import (
    Snapshot,
    SnapshotWriter,
    cluster_stamp,
    snapshot_row,
)
from deployments.stateful.authority.table import Evictor, StateRecord
from deployments.stateful.layout import Partition, agree_on_layout
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    ClaimPart,
    Key,
    Receipt,
    StateBatch,
    TooManyStatesError,
    Version,
)
from tests.support.states import DictStore
from tests.unit.stateful.authorities import (
    OPTIONS,
    TABLE,
    FaultyStore,
    NumberingAuthority,
    batch,
    claim,
    join,
    keep,
    make_authority,
    next_term,
    now,
    options,
    value_of,
)
from tests.unit.stateful.simulation.scenario import simulated

KEY, OTHER = Key("run", "300839359"), Key("run", "265580972")
ROW = f"reset/1/0/{KEY.run}"
KEEP_S = 10.0


def epoch_in(store: FaultyStore, row: str = ROW) -> int:
    return int.from_bytes(store.rows[row], "little")


# The record of resets


async def new_resets() -> tuple[FaultyStore, Resets]:
    store = FaultyStore()
    await agree_on_layout(store, TABLE, OPTIONS, "test")
    writer = FencedWriter(store, TABLE, Partition())
    await writer.acquire("first", "node/1/1")
    snapshots = SnapshotWriter(writer, b"thestamp", False)
    return store, Resets(writer, snapshots, Partition(), now)


@simulated
async def test_a_reset_voids_every_epoch_up_to_its_own_of_its_run():
    _, resets = await new_resets()
    await resets.write("run", 7, [])
    assert [resets.voids("run", epoch) for epoch in (6, 7, 8)] == [True, True, False]
    assert not resets.voids("other", 1)


@simulated
async def test_a_reset_is_in_the_store_with_its_snapshots_erased_before_it_counts():
    store, resets = await new_resets()
    store.rows.update({"copy/run/a": b"1", "copy/run/b": b"2", "copy/run/4": b"3"})
    store.server.down = True
    with pytest.raises(AuthorityUnavailableError):
        await resets.write("run", 7, [Key("run", "a")])
    assert not resets.voids("run", 7)
    store.server.down = False
    await resets.write("run", 7, [Key("run", name) for name in "a01234"])
    assert epoch_in(store) == 7
    assert store.snapshots == {"copy/run/b"}


@simulated
async def test_a_reset_is_forgotten_when_no_claim_can_name_what_it_voids():
    store, resets = await new_resets()
    for n in range(3):
        await resets.write(f"old-{n}", 7, [])
    await asyncio.sleep(KEEP_S / 2)
    await resets.write("run", 8, [])
    await asyncio.sleep(KEEP_S / 2 + 0.1)
    for _ in range(2):  # some rows at a time
        await resets.prune(KEEP_S)
    assert (resets.voids("old-0", 7), resets.voids("old-2", 7), resets.voids("run", 8)) == (
        False,
        False,
        True,
    )
    assert [row for row in store.rows if row.startswith("reset/")] == resets.rows == [ROW]


@pytest.mark.parametrize("first", ["write", "prune"])
@simulated
async def test_a_reset_that_is_written_again_while_it_is_forgotten_stays(first):
    store, resets = await new_resets()
    await resets.write("run", 7, [])
    await asyncio.sleep(KEEP_S + 1)
    calls = [resets.write("run", 9, []), resets.prune(KEEP_S)]
    await asyncio.gather(*(calls if first == "write" else reversed(calls)))
    assert resets.voids("run", 9)
    assert epoch_in(store) == 9


@simulated
async def test_a_superseded_term_writes_no_reset():
    store, resets = await new_resets()
    await FencedWriter(store, TABLE, Partition()).acquire("first", "node/2/2")
    with pytest.raises(SupersededError):
        await resets.write("run", 7, [])
    assert ROW not in store.rows


@simulated
async def test_rows_of_other_partitions_are_not_restored_and_obsolete_ones_are_known():
    _, resets = await new_resets()
    seven = (7).to_bytes(16, "little")
    rows = [f"reset/{partition}/run" for partition in ("1/0", "1/1", "11/0", "0/0")]
    assert [resets.restore(row, seven) for row in rows] == [True, False, False, False]
    assert [resets.is_obsolete(row) for row in rows] == [False, False, False, True]


async def test_work_under_one_name_takes_turns_and_under_two_does_not():
    locks, log, gate = KeyedLocks(), [], asyncio.Event()

    async def work(name: str, label: str) -> None:
        async with locks.hold(name):
            log.append(f"{label} begins")
            await gate.wait()
            log.append(f"{label} ends")

    jobs = [asyncio.create_task(work(*job)) for job in (("a", "a1"), ("a", "a2"), ("b", "b1"))]
    await asyncio.sleep(0)
    assert log == ["a1 begins", "b1 begins"]
    gate.set()
    await asyncio.gather(*jobs)
    assert log.index("a1 ends") < log.index("a2 begins")


async def test_a_lock_is_kept_only_while_it_is_used_however_the_work_ends():
    locks = KeyedLocks()
    with pytest.raises(ZeroDivisionError):
        async with locks.hold("a"):
            raise ZeroDivisionError
    async with locks.hold("b"):
        waiting = asyncio.create_task(locks.hold("b").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert len(locks) == 1
    assert len(locks) == 0


# Resets by the authority


@simulated
async def test_a_reset_clears_a_state_with_its_receipts_and_is_in_the_store_first():
    """A repeated request from before it would be answered with a step that the state lacks."""
    store = FaultyStore()
    authority = await make_authority(store=store)
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    epoch = (await authority.checkout(owner, KEY)).version.epoch
    stepped = batch(KEY, Version(epoch, 1), 1.0, Receipt("key", "print", 1, ()))
    granting = asyncio.create_task(authority.checkout(other, KEY))
    resetting = asyncio.create_task(authority.reset(other, KEY.run))
    await asyncio.sleep(0)
    assert await authority.listen(owner) == [KEY]
    await authority.commit(owner, stepped, [KEY])
    await resetting
    assert epoch_in(store) > epoch
    assert store.snapshots == set()
    granted = await granting
    assert (granted.version.step, granted.state, granted.receipts) == (0, None, ())


@simulated
async def test_a_reset_includes_states_that_are_created_while_it_waits():
    authority = await make_authority()
    owner = await join(authority, "owner")
    await authority.checkout(owner, KEY)
    resetting = asyncio.create_task(authority.reset(owner, KEY.run))
    await asyncio.sleep(0)
    epoch = (await authority.checkout(owner, OTHER)).version.epoch
    assert await authority.listen(owner) == [KEY]
    await authority.commit(owner, batch(OTHER, Version(epoch, 1)), [KEY])
    assert await authority.listen(owner) == [OTHER]
    assert not resetting.done()
    await authority.commit(owner, StateBatch(), [OTHER])
    await resetting
    assert authority.n_states == 0


@pytest.mark.parametrize("turns", range(6))
@simulated
async def test_a_copy_from_before_a_reset_is_void_however_early_it_is_claimed(turns):
    authority = await make_authority()
    first, second = [await join(authority, name) for name in ("first", "second")]
    await authority.checkout(second, OTHER)
    mine = await authority.checkout(first, KEY)  # the latest epoch before that of the reset
    old = batch(KEY, Version(mine.version.epoch, 10))
    reset = asyncio.create_task(authority.reset(first, KEY.run))
    await asyncio.sleep(0)
    await authority.commit(first, old, [KEY])
    again = asyncio.create_task(authority.checkout(first, KEY))
    await asyncio.sleep(0.001)
    await authority.commit(second, StateBatch(), [OTHER])  # the last one that the reset needs
    for _ in range(turns):
        await asyncio.sleep(0)
    session = await join(authority, "first", ClaimPart(released=old))
    await asyncio.gather(reset, again, return_exceptions=True)
    assert (await authority.checkout(session, KEY)).version.step == 0


@simulated
async def test_a_claim_does_not_bring_a_state_back_while_its_reset_is_written():
    """There was no record of the state when the run was recalled."""
    store = FaultyStore()
    authority = await make_authority(store=store)
    session, _ = [await join(authority, name) for name in "ab"]
    store.latency_s = 0.1
    resetting = asyncio.create_task(authority.reset(session, KEY.run))
    await asyncio.sleep(0.02)
    for part in (
        ClaimPart(batch(KEY, Version(1, 5))),
        ClaimPart(released=batch(KEY, Version(1, 5))),
    ):
        _, claimed = await claim(authority, "b", part)
        assert claimed.lost == [KEY]
    assert not resetting.done()
    await resetting
    assert authority.n_states == 0


@simulated
async def test_no_snapshot_is_written_after_its_reset():
    """A term of another layout does not know the reset."""
    store = FaultyStore()
    authority = await make_authority(store=store)
    session, keys = await join(authority, "a"), [Key(f"run-{n}", "1") for n in range(5)]
    for key in keys:
        epoch = (await authority.checkout(session, key)).version.epoch
        await authority.commit(session, batch(key, Version(epoch, 1)), [])
    store.latency_s = 0.02
    await authority.commit(session, StateBatch(), keys)
    await asyncio.sleep(0.03)  # the first of several writes was made
    assert snapshot_row(keys[-1]) not in store.rows
    await authority.reset(session, keys[-1].run)
    for _ in range(100):
        assert store.snapshots <= {snapshot_row(key) for key in keys[:-1]}
        await asyncio.sleep(0.001)


@simulated
async def test_a_snapshot_that_was_not_due_before_a_reset_is_not_written_after_it():
    store = FaultyStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    epoch = (await authority.checkout(session, KEY)).version.epoch
    await authority.commit(session, batch(KEY, Version(epoch, 1)), [])
    resetting = asyncio.create_task(authority.reset(session, KEY.run))
    await asyncio.sleep(0)
    await authority.commit(session, StateBatch(), [KEY])
    await resetting
    await asyncio.sleep(2 * OPTIONS.snapshot_period_s)
    assert store.snapshots == set()


async def with_a_large_run(n: int, **changes: Any) -> tuple[NumberingAuthority, int, FaultyStore]:
    """Return an authority with a run of n states, a session that owns KEY, and the store."""
    store = FaultyStore()
    authority = await make_authority(options(**changes), store)
    session = await join(authority, "a")
    for key in (Key("large", str(number)) for number in range(n)):
        epoch = (await authority.checkout(session, key)).version.epoch
        await authority.commit(session, batch(key, Version(epoch, 1)), [key])
    await authority._snapshots.flush()
    return authority, session, store


@simulated
async def test_states_of_other_runs_are_committed_between_the_writes_of_a_large_reset():
    authority, session, store = await with_a_large_run(20, durability="store")
    epoch = (await authority.checkout(session, KEY)).version.epoch
    store.latency_s = 0.02
    resetting = asyncio.create_task(authority.reset(session, "large"))
    await asyncio.sleep(0.03)
    await authority.commit(session, batch(KEY, Version(epoch, 1)), [])
    assert not resetting.done()
    await resetting
    assert store.snapshots == {snapshot_row(KEY)}


@simulated
async def test_a_large_reset_leaves_turns_of_the_event_loop_to_others():
    authority, _, _ = await with_a_large_run(20)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += isinstance(authority._table.get(Key("large", "0")), StateRecord)

    counting = asyncio.create_task(count_turns())
    await authority._eviction._clear(
        *(await taken(authority, "large")), authority._table.next_epoch()
    )
    counting.cancel()
    assert turns >= 20 // 2
    assert authority._table.of_run("large") == []


async def taken(authority: NumberingAuthority, run: str) -> tuple[list[StateRecord], Evictor]:
    evictor = Evictor()
    return await authority._eviction._take_run(run, evictor), evictor


@simulated
async def test_a_reset_is_finished_although_its_caller_is_cancelled_while_records_are_cleared(
    monkeypatch,
):
    authority, session, _ = await with_a_large_run(20)
    resetting = asyncio.create_task(authority.reset(session, "large"))
    clear = authority._table.clear

    def clear_and_cancel(record: StateRecord, epoch: int) -> None:
        resetting.cancel()
        clear(record, epoch)

    monkeypatch.setattr(authority._table, "clear", clear_and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await resetting
    await asyncio.sleep(0.01)
    assert authority.n_states == 0


@pytest.mark.parametrize("copy", ["owned", "released", "snapshot"])
@simulated
async def test_a_copy_from_before_a_reset_is_void_in_the_next_term(copy):
    store = DictStore()
    first = await make_authority(store=store)
    holder, other = [await join(first, name) for name in ("holder", "other")]
    version = Version((await first.checkout(holder, KEY)).version.epoch, 5)
    old = batch(KEY, version)
    await first.commit(holder, old, [KEY])
    await first.reset(other, KEY.run)
    first.stop()
    parts = {"owned": ClaimPart(old), "released": ClaimPart(released=old), "snapshot": ClaimPart()}
    if copy == "snapshot":  # its write was under way during the reset
        late = Snapshot(version, old.states.tobytes())
        store.rows[snapshot_row(KEY)] = late.pack(cluster_stamp("first"))
    second = await next_term(store)
    session = await join(second, "holder", parts[copy])
    granted = await second.checkout(session, KEY)
    assert (granted.version.step, granted.state) == (0, None)
    await asyncio.sleep(2 * OPTIONS.snapshot_period_s)
    assert snapshot_row(KEY) not in store.rows


@simulated
async def test_a_reset_without_the_store_is_refused_and_leaves_the_states_as_they_are():
    store = FaultyStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    epoch = (await authority.checkout(session, KEY)).version.epoch
    await authority.commit(session, batch(KEY, Version(epoch, 5)), [KEY])
    store.server.down = True
    with pytest.raises(AuthorityUnavailableError):
        await authority.reset(session, KEY.run)
    assert (await authority.checkout(session, KEY)).version.step == 5


@simulated
async def test_a_cancelled_reset_leaves_nothing_taken():
    authority = await make_authority()
    a, b = [await join(authority, name) for name in "ab"]
    await authority.checkout(a, KEY)
    await authority.checkout(b, OTHER)
    resetting = asyncio.create_task(authority.reset(b, KEY.run))
    await asyncio.sleep(0)
    await authority.commit(a, StateBatch(), [KEY])
    resetting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resetting
    async with asyncio.timeout(0.01):
        await authority.checkout(b, KEY)


@simulated
async def test_two_resets_do_not_wait_for_each_other():
    authority = await make_authority()
    session = await join(authority, "a")
    for key in (KEY, OTHER):
        await authority.checkout(session, key)
    await authority.commit(session, StateBatch(), [KEY])
    resets = [asyncio.create_task(authority.reset(session, KEY.run)) for _ in range(2)]
    assert await authority.listen(session) == [OTHER]
    await authority.commit(session, StateBatch(), [OTHER])
    await asyncio.wait_for(asyncio.gather(*resets), 0.1)


@simulated
async def test_a_reset_of_an_unknown_run_is_recorded_too():
    store = FaultyStore()
    authority = await make_authority(store=store)
    await authority.reset(await join(authority, "a"), KEY.run)
    assert ROW in store.rows


@simulated
async def test_a_reset_goes_before_every_replica_that_waits():
    authority = await make_authority()
    owner, *others = [await join(authority, name) for name in ("owner", "a", "b")]
    epoch = (await authority.checkout(owner, KEY)).version.epoch
    waiting = [asyncio.create_task(authority.checkout(each, KEY)) for each in others]
    await asyncio.sleep(0.01)
    resetting = asyncio.create_task(authority.reset(owner, KEY.run))
    await asyncio.sleep(0.01)
    await authority.commit(owner, batch(KEY, Version(epoch, 5)), [KEY])
    await resetting
    assert (await waiting[0]).version.step == 0
    waiting[1].cancel()


# Expiry

EXPIRED: dict[str, Callable[[StateBatch], ClaimPart]] = {
    "owned": lambda states: ClaimPart(states, expired=True),
    "released": lambda states: ClaimPart(released=states, expired=True),
}


@simulated
async def test_an_expired_state_is_not_restored_by_a_claim():
    authority = await make_authority(options(run_ttl_s=1.0))
    session = await join(authority, "a")
    epoch = (await authority.checkout(session, KEY)).version.epoch
    released = batch(KEY, Version(epoch, 5))
    await authority.commit(session, released, [KEY])
    listening = keep(authority, session)
    await asyncio.sleep(1.1)
    assert authority.n_states == 0
    listening.cancel()
    session = await join(authority, "a", ClaimPart(released=released))
    assert (await authority.checkout(session, KEY)).version.step == 0


@pytest.mark.parametrize("waited_for", [False, True])
@pytest.mark.parametrize("role", EXPIRED)
@simulated
async def test_an_expired_claim_does_not_restore_a_run_whose_reset_was_forgotten(role, waited_for):
    authority = await make_authority(options(run_ttl_s=1.0))
    session = await join(authority, "a")
    epoch = (await authority.checkout(session, KEY)).version.epoch
    await authority.commit(session, batch(KEY, Version(epoch, 5)), [KEY])
    await authority.reset(session, KEY.run)
    await authority._resets.prune(keep_s=-1.0)
    if waited_for:  # a record without a grant
        authority._obtain(KEY)
    states = batch(KEY, Version(epoch, 6))
    session, claimed = await claim(authority, "a", EXPIRED[role](states))
    assert claimed.lost == [KEY]
    assert (await authority.checkout(session, KEY)).version.step == 0


@pytest.mark.parametrize("role", EXPIRED)
@simulated
async def test_an_expired_claim_replaces_an_older_snapshot(role):
    """No state actor acted meanwhile, or it would have removed the run."""
    store = DictStore()
    first = await make_authority(store=store)
    session = await join(first, "a")
    epoch = (await first.checkout(session, KEY)).version.epoch
    await first.commit(session, batch(KEY, Version(epoch, 5)), [])
    await first._snapshots.flush()
    first.stop()
    second = await next_term(store)
    states = batch(KEY, Version(epoch, 6), 6.0)
    session, claimed = await claim(second, "a", EXPIRED[role](states))
    assert claimed.lost == []
    if role == "owned":
        await second.commit(session, StateBatch(), [KEY])
    granted = await second.checkout(session, KEY)
    assert (granted.version.step, value_of(granted.state)) == (6, 6.0)


@simulated
async def test_a_run_that_is_not_given_back_expires_once():
    authority = await make_authority(options(run_ttl_s=0.5))
    session = await join(authority, "a")
    await authority.checkout(session, KEY)
    listening = keep(authority, session)
    await asyncio.sleep(1.0)
    assert authority._eviction._locks._users == {KEY.run: 1}
    listening.cancel()


@simulated
async def test_of_many_idle_runs_some_expire_at_once_and_the_others_follow(monkeypatch):
    monkeypatch.setattr(eviction, "MAX_EXPIRING", 3)
    authority = await make_authority(options(run_ttl_s=0.5))
    session = await join(authority, "a")
    for run in range(8):
        key = Key(f"run-{run}", KEY.entity)
        epoch = (await authority.checkout(session, key)).version.epoch
        await authority.commit(session, batch(key, Version(epoch, 1)), [key])
    authority._eviction.expire(idle_since=now() + 1)
    assert authority._eviction._expiring == {"run-0", "run-1", "run-2"}
    await asyncio.sleep(1.0)
    assert authority.n_states == 0


# Reading and writing runs

WRITTEN = batch(KEY, Version(0, 7), 3.0)


@simulated
async def test_a_read_recalls_every_state_and_returns_its_latest_step():
    authority = await make_authority()
    owner, reader = [await join(authority, name) for name in ("owner", "reader")]
    epochs = {key: (await authority.checkout(owner, key)).version.epoch for key in (KEY, OTHER)}
    reading = asyncio.create_task(authority.read(reader, KEY.run))
    await asyncio.sleep(0.01)
    assert set(await authority.listen(owner)) == {KEY, OTHER}
    await authority.commit(owner, batch(KEY, Version(epochs[KEY], 2), 2.0), [KEY])
    await asyncio.sleep(0.01)
    assert not reading.done()
    await authority.commit(owner, StateBatch(), [OTHER])
    states = await reading
    assert [
        (key, version.step) for key, version in zip(states.keys, states.versions, strict=True)
    ] == [(KEY, 2)]
    assert value_of(states.states.tobytes()) == 2.0
    assert (await authority.checkout(reader, KEY)).version.step == 2


@simulated
async def test_a_read_without_the_store_is_refused_where_commits_reach_it():
    store = FaultyStore()
    authority = await make_authority(options(durability="store"), store)
    session = await join(authority, "a")
    epoch = (await authority.checkout(session, KEY)).version.epoch
    store.server.down = True
    committing = asyncio.create_task(
        authority.commit(session, batch(KEY, Version(epoch, 1)), [KEY])
    )
    with pytest.raises(AuthorityUnavailableError):
        await authority.read(session, KEY.run)
    await asyncio.wait([committing])


@simulated
async def test_a_written_run_goes_on_from_its_states_in_this_term_and_in_the_next():
    store = DictStore()
    first = await make_authority(store=store)
    session = await join(first, "a")
    epochs = {key: (await first.checkout(session, key)).version.epoch for key in (KEY, OTHER)}
    for key, epoch in epochs.items():
        await first.commit(session, batch(key, Version(epoch, 1), 1.0), [key])
    await first.write(session, KEY.run, WRITTEN)
    first.stop()  # at once: what is acknowledged is in the store
    second = await next_term(store)
    old = batch(OTHER, Version(epochs[OTHER], 5))
    session = await join(second, "a", ClaimPart(released=old))
    granted = await second.checkout(session, KEY)
    assert (granted.version.step, value_of(granted.state)) == (7, 3.0)
    assert (await second.checkout(session, OTHER)).version.step == 0


@simulated
async def test_a_write_is_answered_when_the_store_has_its_states():
    store = FaultyStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    store.latency_s = 0.05
    await authority.write(session, KEY.run, WRITTEN)
    assert snapshot_row(KEY) in store.rows


@simulated
async def test_a_replica_that_owns_a_state_from_the_midst_of_a_write_loses_it():
    """Its steps would follow from a state that the written one replaces."""
    store = FaultyStore()
    authority = await make_authority(store=store)
    writer, owner = [await join(authority, name) for name in ("writer", "owner")]
    store.latency_s = 0.05
    writing = asyncio.create_task(authority.write(writer, KEY.run, WRITTEN))
    await asyncio.sleep(0.02)
    epoch = (await authority.checkout(owner, KEY)).version.epoch
    assert await authority.listen(owner) == [KEY]
    assert not writing.done()
    await authority.commit(owner, batch(KEY, Version(epoch, 1)), [KEY])
    await writing
    granted = await authority.checkout(owner, KEY)
    assert (granted.version.step, value_of(granted.state)) == (7, 3.0)
    assert granted.version.epoch > epoch


@simulated
async def test_a_replica_that_waits_for_a_written_state_is_granted_it():
    authority = await make_authority()
    writer, owner = [await join(authority, name) for name in ("writer", "owner")]
    await authority.checkout(owner, KEY)
    writing = asyncio.create_task(authority.write(writer, KEY.run, WRITTEN))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(authority.checkout(writer, KEY))
    assert await authority.listen(owner) == [KEY]
    await authority.commit(owner, StateBatch(), [KEY])
    await writing
    granted = await waiting
    assert (granted.version.step, value_of(granted.state)) == (7, 3.0)


@simulated
async def test_a_write_beyond_the_limit_on_states_is_refused_and_changes_nothing():
    authority = await make_authority(options(max_states=1))
    session = await join(authority, "a")
    epoch = (await authority.checkout(session, OTHER)).version.epoch
    await authority.commit(session, batch(OTHER, Version(epoch, 5)), [])
    with pytest.raises(TooManyStatesError):
        await authority.write(session, KEY.run, WRITTEN)
    await authority.commit(session, StateBatch(), [OTHER])
    assert (await authority.checkout(session, OTHER)).version.step == 5


@simulated
async def test_runs_are_listed_with_the_latest_first_up_to_a_limit():
    authority = await make_authority()
    session = await join(authority, "a")
    for n in range(4):
        await asyncio.sleep(0.05)
        key = Key(f"run-{n}", "1")
        epoch = (await authority.checkout(session, key)).version.epoch
        await authority.commit(session, batch(key, Version(epoch, n + 1)), [key] if n % 2 else [])
    listed = await authority.runs(session, limit=3)
    assert [each.run for each in listed] == ["run-3", "run-2", "run-1"]
    assert [each.steps for each in listed] == [{"1": 4}, {"1": 3}, {"1": 2}]
    assert [each.owners for each in listed] == [[], ["a"], []]
    assert listed[0].idle_s < listed[1].idle_s < listed[2].idle_s
