"""Copies on their way into the store: the newest ones, many at a time, urgent ones at once."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.fenced_writer import (
    ROWS_PER_WRITE,
    FencedWriter,
    SupersededError,
)
from deployments.stateful.authority.snapshots import (
    Snapshot,
    SnapshotWriter,
    cluster_stamp,
    snapshot_row,
)
from deployments.stateful.layout import Partition, agree_on_layout
from deployments.stateful.protocol import AuthorityUnavailableError, Key, Version
from tests.unit.stateful.authorities import TABLE, now
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST
from tests.unit.stateful.virtual_time import virtual_time

KEY, OTHER = Key("run", "300839359"), Key("run", "265580972")
STAMP = cluster_stamp("first")
PERIOD_S = 1.0


class Writing:
    """A write-behind at work."""

    async def begin(self, durable: bool = False) -> Writing:
        self.store = MemoryStore()
        await agree_on_layout(self.store, TABLE, FAST, "test")
        self.writer = FencedWriter(self.store, TABLE, Partition())
        await self.writer.acquire("first", "node/1/1")
        self.snapshots = SnapshotWriter(self.writer, STAMP, durable)
        self.loop = asyncio.create_task(self.snapshots.run(PERIOD_S))
        await asyncio.sleep(0.001)
        self.store.changes = 0
        return self

    def put(self, step: int, key: Key = KEY) -> None:
        self.snapshots.put(key, Snapshot(Version(1, step), bytes(8)))

    def step(self, key: Key = KEY) -> int | None:
        row = self.store.tables[TABLE].get(snapshot_row(key))
        snapshot = Snapshot.unpack(row, 8) if row is not None else None
        return None if snapshot is None else snapshot.version.step


@virtual_time
async def test_copies_of_a_period_are_one_write_of_the_newest():
    writing = await Writing().begin()
    for step in range(1, 6):
        writing.put(step)
        writing.put(step, OTHER)
    await asyncio.sleep(PERIOD_S / 2)
    assert writing.store.changes == 0
    await asyncio.sleep(PERIOD_S)
    assert (writing.step(), writing.step(OTHER), writing.store.changes) == (5, 5, 1)


@virtual_time
async def test_a_copy_of_what_nobody_owns_is_written_at_once_and_no_other():
    writing = await Writing().begin()
    writing.put(1)
    writing.put(1, OTHER)
    writing.snapshots.expedite(KEY)
    await asyncio.sleep(0.01)
    assert (writing.step(), writing.step(OTHER)) == (1, None)


@virtual_time
async def test_urgent_copies_that_come_all_the_time_keep_no_other_waiting_beyond_the_period():
    writing = await Writing().begin()
    writing.put(1, OTHER)
    for step in range(110):
        writing.put(step)
        writing.snapshots.expedite(KEY)
        await asyncio.sleep(PERIOD_S / 100)
    assert writing.step(OTHER) == 1


@virtual_time
async def test_in_durable_mode_every_copy_is_written_at_once():
    writing = await Writing().begin(durable=True)
    writing.put(1)
    await asyncio.sleep(0.01)
    assert writing.step() == 1


@virtual_time
async def test_what_is_erased_after_its_copy_is_gone_and_what_is_put_after_is_there():
    writing = await Writing().begin()
    writing.put(1)
    writing.put(1, OTHER)
    await writing.snapshots.flush()
    writing.put(2)
    writing.snapshots.put(KEY, None)
    writing.snapshots.put(OTHER, None)
    writing.put(7, OTHER)
    await writing.snapshots.flush()
    assert (writing.step(), writing.step(OTHER)) == (None, 7)


@virtual_time
async def test_a_flush_returns_when_all_that_was_noted_before_is_written():
    writing = await Writing().begin()
    for n in range(2 * ROWS_PER_WRITE + 1):
        writing.put(1, Key(f"run-{n}", "1"))
    await writing.snapshots.flush()
    assert writing.store.changes == 3
    assert len([row for row in writing.store.tables[TABLE] if row.startswith("copy/")]) == 2001


@virtual_time
async def test_a_flush_during_a_write_waits_for_what_was_put_meanwhile():
    writing = await Writing().begin()
    writing.store.latency_s = (0.5, 0.5)
    writing.put(1)
    first = asyncio.create_task(writing.snapshots.flush())
    await asyncio.sleep(0.3)
    writing.put(2)
    await writing.snapshots.flush()
    assert first.done()
    assert writing.step() == 2


@virtual_time
async def test_a_store_that_is_down_is_tried_again_and_has_the_newest_in_the_end():
    writing = await Writing().begin()
    writing.store.down = True
    for step in range(1, 4):
        writing.put(step)
        await asyncio.sleep(2 * PERIOD_S)
    writing.store.down = False
    await asyncio.sleep(0.2)
    assert writing.step() == 3
    assert not writing.loop.done()


@virtual_time
async def test_what_is_put_while_a_write_fails_is_not_overwritten_by_it():
    writing = await Writing().begin()
    writing.store.down, writing.store.down_after_s = True, 0.5
    writing.put(1)
    writing.snapshots.expedite(KEY)
    await asyncio.sleep(0.3)
    writing.put(2)
    writing.snapshots.expedite(KEY)
    writing.put(3)
    await asyncio.sleep(0.3)
    writing.store.down = False
    await writing.snapshots.flush()
    assert writing.step() == 3


@virtual_time
async def test_a_flush_that_the_store_does_not_take_fails_within_seconds():
    writing = await Writing().begin()
    writing.store.down = True
    writing.put(1)
    before = now()
    with pytest.raises(AuthorityUnavailableError, match="does not accept snapshots"):
        await writing.snapshots.flush()
    assert now() - before < 5
    writing.store.down = False
    await writing.snapshots.flush()
    assert writing.step() == 1


@pytest.mark.parametrize("seed", range(10))
@virtual_time
async def test_with_lost_and_late_messages_the_newest_stands_in_the_end(seed):
    writing = await Writing().begin()
    store = writing.store
    store.random.seed(seed)
    store.late, store.lost_reply, store.late_s = 0.3, 0.3, 0.5
    for step in range(1, 60):
        writing.put(step)
        writing.snapshots.expedite(KEY)
        if step % 7 == 0:
            writing.snapshots.put(KEY, None)
        await asyncio.sleep(0.02)
    store.late = store.lost_reply = 0.0
    await writing.snapshots.flush()
    await asyncio.sleep(5)
    assert writing.step() == 59
    assert store.doubts > 0


@virtual_time
async def test_a_life_that_was_succeeded_ends():
    writing = await Writing().begin()
    await FencedWriter(writing.store, TABLE, Partition()).acquire("first", "node/2/2")
    writing.put(1)
    with pytest.raises(SupersededError):
        await writing.loop
    assert writing.step() is None


@virtual_time
async def test_it_ends_when_it_is_cancelled_although_there_is_something_to_write():
    writing = await Writing().begin()
    writing.put(1)
    writing.snapshots.expedite(KEY)
    writing.loop.cancel()
    await asyncio.wait([writing.loop], timeout=1)
    assert writing.loop.cancelled()


@virtual_time
async def test_of_a_copy_whose_write_failed_and_a_newer_one_a_flush_writes_the_newer():
    writing = await Writing().begin()
    writing.store.down, writing.store.down_after_s = True, 0.3
    writing.put(1)
    writing.snapshots.expedite(KEY)
    await asyncio.sleep(0.1)  # the first is on its way
    writing.put(2)
    await asyncio.sleep(0.21)  # it has failed, and is tried again soon
    flushed = asyncio.create_task(writing.snapshots.flush())
    writing.store.down = False
    await flushed
    assert writing.step() == 2
