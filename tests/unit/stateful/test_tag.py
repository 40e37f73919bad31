"""A replica with another tag does not start while there are states."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.admission import (
    LONGEST_WAIT_S,
    Claimant,
    ForeignStatesError,
    admit,
    check_tag,
)
from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.authority.snapshots import Snapshot, cluster_stamp, snapshot_row
from deployments.stateful.layout import LAYOUT_ROW, Layout, agree_on_layout
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import Key, Version
from tests.support.states import DictStore
from tests.support.virtual_time import virtual_time

TABLE, SESSION = "states:test", "session-now"
SNAPSHOT = Snapshot(Version(1, 3), b"state")


async def ended(process: str) -> bool:
    return True


async def serving(tag: str = "first") -> DictStore:
    store = DictStore()
    await agree_on_layout(store, TABLE, StateOptions(), tag)
    return store


def keep(store: DictStore, session: str = SESSION) -> None:
    """Keep a snapshot from one start of the cluster."""
    store.rows[snapshot_row(Key("run", "entity"))] = SNAPSHOT.pack(cluster_stamp(session))


def lead(store: DictStore, session: str) -> None:
    """Record an authority of one start of the cluster for the first partition."""
    partition, *_ = Layout.unpack(store.rows[LAYOUT_ROW]).partitions
    store.rows[partition.row] = LeadershipRecord(1, session=session).pack()


async def check(
    store: DictStore, tag: str, restores: bool = False, snapshots_within_s: float = 0.0
) -> None:
    await check_tag(
        store,
        TABLE,
        Claimant(SESSION, tag),
        restores=restores,
        snapshots_within_s=snapshots_within_s,
    )


async def test_the_first_tag_and_the_same_tag_again_are_admitted():
    await check(DictStore(), "first")
    store = await serving("first")
    keep(store)
    await check(store, "first")


async def test_a_layout_from_before_tags_admits_every_tag():
    store = await serving()
    layout = Layout.unpack(store.rows[LAYOUT_ROW])
    del layout.terms["network"]
    store.rows[LAYOUT_ROW] = layout.pack()
    keep(store)
    await check(store, "second")


async def test_another_tag_is_refused_while_there_are_states_and_nothing_changes():
    store = await serving()
    keep(store)
    before = dict(store.rows)
    with pytest.raises(ForeignStatesError) as refusal:
        await check(store, "second")
    assert refusal.value.found == "1 of these are kept"
    assert store.rows == before


async def test_without_states_another_tag_gets_its_own_layout():
    store = await serving()
    layout = await admit(store, TABLE, Claimant(SESSION, "second"), StateOptions(), ended)
    assert (layout.generation, layout.tag) == (2, "second")
    assert [partition.generation for partition in layout.earlier] == [1]


async def test_states_of_an_earlier_start_count_only_where_they_are_restored():
    store = await serving()
    keep(store, "session-before")
    await check(store, "second")
    with pytest.raises(ForeignStatesError):
        await check(store, "second", restores=True)


@virtual_time
async def test_snapshots_that_are_due_are_waited_for():
    store = await serving()
    lead(store, SESSION)
    checking = asyncio.create_task(check(store, "second", snapshots_within_s=1.0))
    await asyncio.sleep(0.9)
    assert not checking.done()
    keep(store)
    with pytest.raises(ForeignStatesError, match="1 of these are kept"):
        await checking


@virtual_time
async def test_states_that_are_kept_already_are_refused_without_a_wait():
    store = await serving()
    keep(store)
    lead(store, SESSION)
    began = asyncio.get_running_loop().time()
    with pytest.raises(ForeignStatesError, match="1 of these are kept"):
        await check(store, "second", snapshots_within_s=1.0)
    assert asyncio.get_running_loop().time() == began


@pytest.mark.parametrize(
    ("session", "waits_s"), [(None, 0), ("session-before", 0), (SESSION, LONGEST_WAIT_S)]
)
@virtual_time
async def test_only_an_authority_of_this_start_is_waited_for_and_never_for_long(session, waits_s):
    store = await serving()
    if session is not None:
        lead(store, session)
    began = asyncio.get_running_loop().time()
    await check(store, "second", snapshots_within_s=3600.0)
    assert asyncio.get_running_loop().time() - began == pytest.approx(waits_s)


@virtual_time
async def test_the_authority_of_one_of_several_partitions_is_enough_to_wait_for_it():
    store = DictStore()
    await agree_on_layout(store, TABLE, StateOptions(shards=3), "first")
    lead(store, SESSION)
    began = asyncio.get_running_loop().time()
    await check(store, "second", snapshots_within_s=1.0)
    assert asyncio.get_running_loop().time() - began == pytest.approx(1.0)
