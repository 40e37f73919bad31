"""A term writes only while it has the partition, whatever the store does with its messages."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from deployments.stateful.authority.fenced_writer import (
    FencedWriter,
    LeadershipRecord,
    PartitionRetiredError,
    SupersededError,
)
from deployments.stateful.layout import Partition, agree_on_layout
from deployments.stateful.protocol import AuthorityUnavailableError
from tests.unit.stateful.authorities import OPTIONS, TABLE, FaultyStore
from tests.unit.stateful.simulation.scenario import simulated

PARTITION = Partition()


async def new_store() -> FaultyStore:
    store = FaultyStore()
    await agree_on_layout(store, TABLE, OPTIONS, "test")
    return store


async def acquire(
    store: FaultyStore, process: str = "first", session: str = "cluster"
) -> FencedWriter:
    writer = FencedWriter(store, TABLE, PARTITION)
    await writer.acquire(session, process)
    return writer


def record_in(store: FaultyStore) -> LeadershipRecord:
    return LeadershipRecord.unpack(store.rows[PARTITION.row])


async def write_in_doubt(store: FaultyStore, writer: FencedWriter) -> None:
    """Make a write that is made a second after its caller received an error."""
    store.server.late, store.server.late_s = 1.0, (1.0, 1.0)
    with pytest.raises(AuthorityUnavailableError):
        await writer.write({"copy/late": b"late"})
    store.server.late = 0.0
    assert store.snapshots == set()


async def write_without_response(store: FaultyStore, writer: FencedWriter, row: str) -> None:
    store.server.after = 1.0
    with pytest.raises(AuthorityUnavailableError):
        await writer.write({row: b""})
    store.server.after = 0.0


@pytest.mark.parametrize("error", [SupersededError(), PartitionRetiredError()], ids=repr)
def test_errors_can_be_pickled(error):
    arrived = pickle.loads(pickle.dumps(error))
    assert (type(arrived), str(arrived)) == (type(error), str(error))


@simulated
async def test_each_term_has_a_higher_number_and_learns_of_its_predecessor():
    store = await new_store()
    assert (await FencedWriter(store, TABLE, PARTITION).acquire("cluster", "first")).process == ""
    second = FencedWriter(store, TABLE, PARTITION)
    assert (await second.acquire("cluster", "second")).process == "first"
    assert second.record.term == record_in(store).term == 2


@pytest.mark.parametrize(("session", "members"), [("cluster", ("a", "b")), ("another", ())])
@simulated
async def test_only_a_term_of_the_same_cluster_inherits_the_members(session, members):
    store = await new_store()
    await (await acquire(store)).set_members(("a", "b"))
    assert (await acquire(store, "second", session)).record.members == members


@simulated
async def test_a_cluster_that_was_silent_is_not_succeeded_after_it_has_begun_another_term():
    store = await new_store()
    silent = (await acquire(store, session="another")).record
    await acquire(store, "second", session="another")
    with pytest.raises(AuthorityUnavailableError, match="at the same time"):
        await FencedWriter(store, TABLE, PARTITION).acquire("cluster", "first", 0.0, silent)
    after = FencedWriter(store, TABLE, PARTITION)
    assert (await after.acquire("cluster", "first", 0.0, record_in(store))).process == "second"


@simulated
async def test_a_term_of_the_same_cluster_is_succeeded_although_it_has_written_meanwhile():
    store = await new_store()
    predecessor = await acquire(store)
    seen = predecessor.record
    await predecessor.beat()
    after = FencedWriter(store, TABLE, PARTITION)
    assert (await after.acquire("cluster", "second", 0.0, seen)).process == "first"


@simulated
async def test_a_retired_partition_is_not_acquired():
    store = await new_store()
    del store.rows[PARTITION.row]
    with pytest.raises(PartitionRetiredError):
        await acquire(store)


@simulated
async def test_one_of_several_acquires_the_partition():
    store = await new_store()
    store.latency_s = 0.001  # all read the record before any has written it
    writers = [FencedWriter(store, TABLE, PARTITION) for _ in range(5)]
    outcomes = await asyncio.gather(
        *(each.acquire("cluster", f"process-{n}") for n, each in enumerate(writers)),
        return_exceptions=True,
    )
    winners = [n for n, each in enumerate(outcomes) if isinstance(each, LeadershipRecord)]
    assert len(winners) == 1
    assert all(isinstance(each, LeadershipRecord | AuthorityUnavailableError) for each in outcomes)
    assert [n for n, each in enumerate(writers) if each.record.term and await each.is_mine()] == (
        winners
    )


@simulated
async def test_a_term_puts_and_deletes_rows():
    store = await new_store()
    writer = await acquire(store)
    await writer.write({"copy/a": b"1", "copy/b": b"2"})
    await writer.write({"copy/c": b"3"}, ["copy/a"])
    assert store.snapshots == {"copy/b", "copy/c"}
    many = [f"copy/{n}" for n in range(5)]  # more than one write deletes
    await writer.write(dict.fromkeys(many, b""))
    await writer.delete(many)
    assert store.snapshots == {"copy/b", "copy/c"}


@simulated
async def test_a_superseded_term_writes_nothing_and_learns_of_it():
    store = await new_store()
    first = await acquire(store)
    await first.write({"copy/a": b"1"})
    second = await acquire(store, "second")
    before = dict(store.rows)
    for attempt in (
        first.write({"copy/a": b"0"}, ["copy/b"]),
        first.set_members(("intruder",)),
        first.step_down(),
        first.retire([]),
    ):
        with pytest.raises(SupersededError):
            await attempt
    assert store.rows == before
    assert (await first.is_mine(), await second.is_mine()) == (False, True)


@pytest.mark.parametrize("process", ["second", "first"])
@simulated
async def test_a_write_that_arrives_after_the_next_term_began_is_not_made(process):
    """Nor if the same process has acquired the partition again."""
    store = await new_store()
    writer = await acquire(store)
    await write_in_doubt(store, writer)
    await writer.acquire("cluster", process)
    await asyncio.sleep(2)
    assert store.snapshots == set()


@pytest.mark.parametrize("next_write", ["write", "set_members", "set the same members", "retire"])
@simulated
async def test_a_write_in_doubt_is_not_made_after_the_next_one(next_write):
    store = await new_store()
    writer = await acquire(store)
    await write_in_doubt(store, writer)
    attempts = {
        "write": lambda: writer.write({"copy/a": b"1"}),
        "set_members": lambda: writer.set_members(("a",)),
        "set the same members": lambda: writer.set_members(()),
        "retire": lambda: writer.retire([]),
    }
    await attempts[next_write]()
    before = dict(store.rows)
    await asyncio.sleep(2)
    assert store.rows == before


@simulated
async def test_writes_without_a_response_are_made_once_and_the_next_one_settles_the_doubt():
    store = await new_store()
    writer = await acquire(store)
    for n in range(3):
        await write_without_response(store, writer, f"copy/{n}")
    await writer.write({"copy/last": b""})
    assert store.snapshots == {"copy/0", "copy/last"}, "the others waited for the settling"


@simulated
async def test_members_that_were_written_without_a_response_are_kept():
    store = await new_store()
    writer = await acquire(store)
    store.server.after = 1.0
    with pytest.raises(AuthorityUnavailableError):
        await writer.set_members(("a",))
    store.server.after = 0.0
    await writer.write({"copy/a": b"1"})
    assert writer.record.members == record_in(store).members == ("a",)


@simulated
async def test_concurrent_writes_take_turns():
    store = await new_store()
    writer = await acquire(store)
    names = [f"copy/{n}" for n in range(20)]
    await asyncio.gather(*(writer.write({name: b""}) for name in names), writer.set_members(("a",)))
    assert store.snapshots == set(names)  # at the same time, they would supersede each other
    assert writer.record.attempt == 0


@simulated
async def test_a_cancelled_write_is_in_doubt():
    store = await new_store()
    writer = await acquire(store)
    store.latency_s = 0.1
    writing = asyncio.create_task(writer.write({"copy/a": b"1"}))
    await asyncio.sleep(0.06)  # it is made, and its response is on the way
    writing.cancel()
    await asyncio.wait([writing])
    attempt = writer.record.attempt
    await writer.write({"copy/b": b"2"})
    assert writer.record.attempt == attempt + 1


@pytest.mark.parametrize("responds", [True, False])
@simulated
async def test_a_retired_partition_leaves_no_rows_of_its_own(responds):
    store = await new_store()
    writer = await acquire(store)
    await writer.write({"copy/a": b"1", "copy/b": b"2"})
    if not responds:
        store.server.after = 1.0
        with pytest.raises(AuthorityUnavailableError):
            await writer.retire(["copy/a"])
        store.server.after = 0.0
    await writer.retire(["copy/a"])
    assert PARTITION.row not in store.rows
    assert store.snapshots == {"copy/b"}
    with pytest.raises(SupersededError):
        await writer.write({"copy/a": b"0"})


@simulated
async def test_without_the_store_every_method_is_unavailable_and_changes_nothing():
    store = await new_store()
    writer = await acquire(store)
    before = dict(store.rows)
    store.server.down = True
    for attempt in (
        writer.is_mine(),
        writer.write({"copy/a": b""}),
        writer.set_members(("a",)),
        writer.retire([]),
        writer.acquire("cluster", "second"),
    ):
        with pytest.raises(AuthorityUnavailableError, match="The store is unavailable"):
            await attempt
    assert store.rows == before
