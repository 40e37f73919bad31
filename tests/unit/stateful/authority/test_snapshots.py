"""Snapshots on their way into the store: the newest ones, many at a time, urgent ones at once."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.fenced_writer import FencedWriter, SupersededError
from deployments.stateful.authority.snapshots import (
    Snapshot,
    SnapshotWriter,
    cluster_stamp,
    has_stamp,
    key_of,
    snapshot_row,
)
from deployments.stateful.layout import LAYOUT_ROW, Partition, agree_on_layout
from deployments.stateful.protocol import AuthorityUnavailableError, Key, Receipt, Version
from tests.unit.stateful.authorities import OPTIONS, TABLE, FaultyStore, now
from tests.unit.stateful.simulation.network import STORE
from tests.unit.stateful.simulation.scenario import simulated
from tests.unit.stateful.simulation.store import DEADLINE_S

KEY, OTHER = Key("run", "300839359"), Key("run", "265580972")
STAMP = cluster_stamp("first")
STATE = bytes(range(200))
PERIOD_S = 1.0
LATE = Version(2**90, 2**40)


class Writing:
    """A writer of snapshots at work."""

    async def begin(self, every_put_is_urgent: bool = False) -> Writing:
        self.store = FaultyStore()
        await agree_on_layout(self.store, TABLE, OPTIONS, "test")
        writer = FencedWriter(self.store, TABLE, Partition())
        await writer.acquire("first", "node/1/1")
        self.snapshots = SnapshotWriter(writer, STAMP, every_put_is_urgent)
        self.loop = asyncio.create_task(self.snapshots.run(PERIOD_S))
        await asyncio.sleep(0.001)
        self.store.server.counts.clear()
        return self

    def put(self, step: int, key: Key = KEY, urgent: bool = False) -> None:
        self.snapshots.put(key, Snapshot(Version(1, step), STATE))
        if urgent:
            self.snapshots.expedite(key)

    def step(self, key: Key = KEY) -> int | None:
        """Return the step of the snapshot in the store."""
        row = self.store.rows.get(snapshot_row(key))
        snapshot = Snapshot.unpack(row, len(STATE)) if row is not None else None
        return None if snapshot is None else snapshot.version.step


# As rows


@pytest.mark.parametrize(
    "receipts", [(), (Receipt("a", "f", 1, (2, 1 / 3)), Receipt("b", "", 2, ()))]
)
def test_a_snapshot_is_read_as_it_was_written(receipts):
    snapshot = Snapshot(LATE, STATE, receipts)
    row = snapshot.pack(STAMP)
    read = Snapshot.unpack(row, len(STATE))
    assert read == snapshot
    assert all(type(receipt) is Receipt for receipt in read.receipts)
    assert has_stamp(row, STAMP)
    assert not has_stamp(row, cluster_stamp("second"))


@pytest.mark.parametrize("damaged", [b"", b"short", b"x" * 32, b"x" * 231, b"x" * 10_000], ids=len)
def test_a_damaged_snapshot_is_ignored(damaged):
    assert Snapshot.unpack(damaged, len(STATE)) is None


@pytest.mark.parametrize("key", [KEY, Key("a.b:c_d-1", "x/y")])
def test_a_row_names_its_key(key):
    assert key_of(snapshot_row(key)) == key


@pytest.mark.parametrize("row", [Partition(3, 1, 2).row, LAYOUT_ROW, "reset/1/0/run"])
def test_other_rows_have_no_key(row):
    assert key_of(row) is None


# Their writer


@simulated
async def test_the_snapshots_of_a_period_are_written_together_and_only_the_newest():
    writing = await Writing().begin()
    for step in range(1, 6):
        writing.put(step)
        writing.put(step, OTHER)
    await asyncio.sleep(PERIOD_S / 2)
    assert writing.store.server.counts["changes"] == 0
    await asyncio.sleep(PERIOD_S)
    changes = writing.store.server.counts["changes"]
    assert (writing.step(), writing.step(OTHER), changes) == (5, 5, 1)


@simulated
async def test_only_an_urgent_snapshot_is_written_at_once():
    writing = await Writing().begin()
    writing.put(1, OTHER)
    writing.put(1, urgent=True)
    await asyncio.sleep(0.01)
    assert (writing.step(), writing.step(OTHER)) == (1, None)


@simulated
async def test_urgent_snapshots_do_not_delay_the_others_beyond_the_period():
    writing = await Writing().begin()
    writing.put(1, OTHER)
    for step in range(110):
        writing.put(step, urgent=True)
        await asyncio.sleep(PERIOD_S / 100)
    assert writing.step(OTHER) == 1


@simulated
async def test_every_snapshot_is_written_at_once_where_commits_wait_for_it():
    writing = await Writing().begin(every_put_is_urgent=True)
    writing.put(1)
    await asyncio.sleep(0.01)
    assert writing.step() == 1


@simulated
async def test_of_a_snapshot_and_its_erasure_the_later_one_counts():
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


@simulated
async def test_a_flush_returns_when_everything_noted_before_is_written():
    writing = await Writing().begin()
    for n in range(5):
        writing.put(1, Key(f"run-{n}", "1"))
    await writing.snapshots.flush()
    assert writing.store.server.counts["changes"] == 3
    assert len(writing.store.snapshots) == 5


@simulated
async def test_a_flush_during_a_write_waits_for_what_was_noted_meanwhile():
    writing = await Writing().begin()
    writing.store.latency_s = 0.2
    writing.put(1)
    first = asyncio.create_task(writing.snapshots.flush())
    await asyncio.sleep(0.15)
    writing.put(2)
    await writing.snapshots.flush()
    assert first.done()
    assert writing.step() == 2


@simulated
async def test_a_failed_write_is_repeated_with_the_newest_snapshots():
    writing = await Writing().begin()
    writing.store.server.down = True
    for step in range(1, 4):
        writing.put(step)
        await asyncio.sleep(2 * PERIOD_S)
    writing.store.server.down = False
    await asyncio.sleep(0.2)
    assert writing.step() == 3


@pytest.mark.parametrize("urgent", [True, False])
@simulated
async def test_a_failed_write_does_not_replace_what_was_noted_meanwhile(urgent):
    writing = await Writing().begin()
    mend = writing.store.network.cut("test", STORE, silent=True)
    writing.put(1, urgent=True)
    await asyncio.sleep(DEADLINE_S / 2)  # the write is on its way
    writing.put(2, urgent=urgent)
    writing.put(3)
    await asyncio.sleep(DEADLINE_S / 2 + 0.001)  # it has failed
    mend()
    await writing.snapshots.flush()
    assert writing.step() == 3


@simulated
async def test_a_flush_without_the_store_fails_and_what_was_noted_stays():
    writing = await Writing().begin()
    writing.store.server.down = True
    writing.put(1)
    before = now()
    with pytest.raises(AuthorityUnavailableError, match="does not accept snapshots"):
        await writing.snapshots.flush()
    assert now() - before < 0.5
    writing.store.server.down = False
    await writing.snapshots.flush()
    assert writing.step() == 1


@pytest.mark.parametrize("seed", range(5))
@simulated
async def test_the_newest_snapshot_stays_however_messages_fail(seed):
    writing = await Writing().begin()
    server = writing.store.server
    server.random.seed(seed)
    server.late = server.after = 0.3
    for step in range(1, 60):
        writing.put(step, urgent=True)
        if step % 7 == 0:
            writing.snapshots.put(KEY, None)
        await asyncio.sleep(0.02)
    server.late = server.after = 0.0
    await writing.snapshots.flush()
    await asyncio.sleep(5)
    assert writing.step() == 59
    assert server.counts["made late"] > 0 < server.counts["failed after"]


@simulated
async def test_the_writer_of_a_superseded_term_ends():
    writing = await Writing().begin()
    await FencedWriter(writing.store, TABLE, Partition()).acquire("first", "node/2/2")
    writing.put(1)
    with pytest.raises(SupersededError):
        await writing.loop
    assert writing.step() is None
