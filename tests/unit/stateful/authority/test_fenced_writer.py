"""A life writes only while the partition is its own, whatever the store makes of its messages."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Collection, Mapping

import pytest

from deployments.stateful.authority.fenced_writer import (
    FencedWriter,
    LeadershipRecord,
    PartitionRetiredError,
    SupersededError,
)
from deployments.stateful.layout import Partition, agree_on_layout
from deployments.stateful.protocol import AuthorityUnavailableError
from deployments.store import Expected
from tests.unit.stateful.authorities import TABLE
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST
from tests.unit.stateful.virtual_time import virtual_time

PARTITION = Partition()


async def laid_out() -> MemoryStore:
    store = MemoryStore()
    await agree_on_layout(store, TABLE, FAST, "test")
    return store


async def taken(
    store: MemoryStore, process: str = "first", session: str = "cluster"
) -> FencedWriter:
    writer = FencedWriter(store, TABLE, PARTITION)
    await writer.acquire(session, process)
    return writer


def rows(store: MemoryStore) -> dict[str, bytes]:
    return {name: row for name, row in store.tables[TABLE].items() if name.startswith("copy/")}


def seat_row(store: MemoryStore) -> LeadershipRecord:
    return LeadershipRecord.unpack(store.tables[TABLE][PARTITION.row])


async def in_doubt(store: MemoryStore, writer: FencedWriter, name: str = "copy/doubtful") -> None:
    """Make a write whose outcome the writer does not know, and which arrives a second later."""
    store.late, store.late_s = 1.0, 1.0
    store.random.uniform = lambda least, most: most  # type: ignore[method-assign, assignment]
    with pytest.raises(AuthorityUnavailableError):
        await writer.write({name: b"late"})
    store.late = 0.0
    assert name not in rows(store)


@pytest.mark.parametrize("error", [SupersededError(), PartitionRetiredError()], ids=repr)
def test_an_error_reaches_the_replicas_as_what_it_is(error):
    arrived = pickle.loads(pickle.dumps(error))
    assert (type(arrived), str(arrived)) == (type(error), str(error))


@virtual_time
async def test_each_life_has_a_higher_number_and_sees_who_was_there_before():
    store = await laid_out()
    assert (await FencedWriter(store, TABLE, PARTITION).acquire("cluster", "first")).process == ""
    second = FencedWriter(store, TABLE, PARTITION)
    assert (await second.acquire("cluster", "second")).process == "first"
    assert second.record.term == seat_row(store).term == 2


@pytest.mark.parametrize(("session", "members"), [("cluster", ("a", "b")), ("another", ())])
@virtual_time
async def test_members_pass_to_the_next_life_of_the_same_cluster_alone(session, members):
    store = await laid_out()
    await (await taken(store)).set_members(("a", "b"))
    assert (await taken(store, "second", session)).record.members == members


@virtual_time
async def test_a_seat_that_is_there_no_more_is_not_taken():
    with pytest.raises(PartitionRetiredError):
        await taken(MemoryStore())


@virtual_time
async def test_of_two_that_take_the_seat_at_once_one_has_it():
    store = await laid_out()
    store.latency_s = (0.001, 0.001)  # all read the row before any has written it
    lives = [FencedWriter(store, TABLE, PARTITION) for _ in range(5)]
    outcomes = await asyncio.gather(
        *(life.acquire("cluster", f"process-{n}") for n, life in enumerate(lives)),
        return_exceptions=True,
    )
    seated = [n for n, each in enumerate(outcomes) if isinstance(each, LeadershipRecord)]
    assert len(seated) == 1
    assert all(isinstance(each, LeadershipRecord | AuthorityUnavailableError) for each in outcomes)
    assert [n for n, life in enumerate(lives) if life.record.term and await life.is_mine()] == (
        seated
    )


@virtual_time
async def test_what_a_life_writes_is_there_and_what_it_deletes_is_gone():
    store = await laid_out()
    writer = await taken(store)
    await writer.write({"copy/a": b"1", "copy/b": b"2"})
    await writer.write({"copy/c": b"3"}, ["copy/a"])
    assert rows(store) == {"copy/b": b"2", "copy/c": b"3"}


@virtual_time
async def test_a_life_that_was_succeeded_writes_nothing_and_is_told():
    store = await laid_out()
    first = await taken(store)
    await first.write({"copy/a": b"1"})
    second = await taken(store, "second")
    before = dict(store.tables[TABLE])
    for attempt in (
        first.write({"copy/a": b"0"}, ["copy/b"]),
        first.set_members(("intruder",)),
        first.retire([]),
    ):
        with pytest.raises(SupersededError):
            await attempt
    assert store.tables[TABLE] == before
    assert (await first.is_mine(), await second.is_mine()) == (False, True)


@virtual_time
async def test_a_write_that_arrives_after_the_succession_is_not_made():
    store = await laid_out()
    await in_doubt(store, await taken(store))
    await taken(store, "second")
    await asyncio.sleep(2)
    assert rows(store) == {}


@virtual_time
async def test_the_same_process_in_a_later_attempt_is_another_life():
    store = await laid_out()
    writer = await taken(store)
    await in_doubt(store, writer)
    await writer.acquire("cluster", "first")
    await asyncio.sleep(2)
    assert rows(store) == {}


@pytest.mark.parametrize("next_write", ["write", "set_members", "set the same members", "retire"])
@virtual_time
async def test_a_write_in_doubt_can_be_made_no_more_when_the_next_one_is(next_write):
    store = await laid_out()
    writer = await taken(store)
    await in_doubt(store, writer)
    attempts = {
        "write": lambda: writer.write({"copy/a": b"1"}),
        "set_members": lambda: writer.set_members(("a",)),
        "set the same members": lambda: writer.set_members(()),
        "retire": lambda: writer.retire([]),
    }
    await attempts[next_write]()
    before = dict(store.tables[TABLE])
    await asyncio.sleep(2)
    assert store.tables[TABLE] == before, "the earlier write was made after the later one"


@virtual_time
async def test_a_write_whose_answer_was_lost_is_made_once_and_the_next_one_goes_through():
    store = await laid_out()
    writer = await taken(store)
    store.lost_reply = 1.0
    with pytest.raises(AuthorityUnavailableError):
        await writer.write({"copy/a": b"1"})
    store.lost_reply = 0.0
    await writer.write({"copy/b": b"2"})
    assert rows(store) == {"copy/a": b"1", "copy/b": b"2"}


@virtual_time
async def test_members_that_were_written_in_doubt_are_known_and_not_forgotten():
    store = await laid_out()
    writer = await taken(store)
    store.lost_reply = 1.0
    with pytest.raises(AuthorityUnavailableError):
        await writer.set_members(("a",))
    store.lost_reply = 0.0
    await writer.write({"copy/a": b"1"})
    assert writer.record.members == seat_row(store).members == ("a",)


@virtual_time
async def test_doubt_over_doubt_is_settled_when_the_store_serves_again():
    store = await laid_out()
    writer = await taken(store)
    store.lost_reply = 1.0
    for n in range(3):
        with pytest.raises(AuthorityUnavailableError):
            await writer.write({f"copy/{n}": b""})
    store.lost_reply = 0.0
    await writer.write({"copy/last": b""})
    assert rows(store).keys() == {"copy/0", "copy/last"}, "the others waited for the settling"


@virtual_time
async def test_writes_go_one_after_the_other():
    store = await laid_out()
    writer = await taken(store)
    under_way = 0

    class Watched(MemoryStore):
        async def change(
            self,
            table: str,
            puts: Mapping[str, bytes],
            deletes: Collection[str] = (),
            *,
            when: Expected,
        ) -> bool:
            nonlocal under_way
            under_way += 1
            assert under_way == 1
            try:
                return await super().change(table, puts, deletes, when=when)
            finally:
                under_way -= 1

    writer.store = Watched(tables=store.tables)
    await asyncio.gather(
        *(writer.write({f"copy/{n}": b""}) for n in range(20)), writer.set_members(("a",))
    )
    assert len(rows(store)) == 20


@virtual_time
async def test_a_cancelled_write_counts_as_in_doubt():
    store = await laid_out()
    writer = await taken(store)
    store.latency_s = (0.1, 0.1)
    writing = asyncio.create_task(writer.write({"copy/a": b"1"}))
    await asyncio.sleep(0.06)  # it is made, and its answer is on the way
    writing.cancel()
    await asyncio.wait([writing])
    attempt = writer.record.attempt
    await writer.write({"copy/b": b"2"})
    assert writer.record.attempt == attempt + 1


@virtual_time
async def test_a_seat_is_given_up_with_the_rows_that_served_it():
    store = await laid_out()
    writer = await taken(store)
    await writer.write({"copy/a": b"1", "copy/b": b"2"})
    await writer.retire(["copy/a"])
    assert PARTITION.row not in store.tables[TABLE]
    assert rows(store) == {"copy/b": b"2"}
    with pytest.raises(SupersededError):
        await writer.write({"copy/a": b"0"})


@virtual_time
async def test_a_seat_whose_giving_up_seemed_to_fail_is_given_up_by_the_next_attempt():
    store = await laid_out()
    writer = await taken(store)
    store.lost_reply = 1.0
    with pytest.raises(AuthorityUnavailableError):
        await writer.retire([])
    store.lost_reply = 0.0
    await writer.retire([])
    assert PARTITION.row not in store.tables[TABLE]


@virtual_time
async def test_a_store_that_is_down_makes_every_method_unavailable_and_changes_nothing():
    store = await laid_out()
    writer = await taken(store)
    before = dict(store.tables[TABLE])
    store.down = True
    for attempt in (
        writer.is_mine(),
        writer.write({"copy/a": b""}),
        writer.set_members(("a",)),
        writer.retire([]),
        writer.acquire("cluster", "second"),
    ):
        with pytest.raises(AuthorityUnavailableError, match="The store is unavailable"):
            await attempt
    assert store.tables[TABLE] == before
