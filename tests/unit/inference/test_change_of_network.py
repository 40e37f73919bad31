"""A replica of another network does not start while there are states of the one before."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from deployments.inference.change_of_network import (
    LONGEST_WAIT_S,
    AnotherNetworkError,
    check_network,
)

from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.authority.snapshots import Copy, cluster_stamp, pack_copy, snapshot_row
from deployments.stateful.layout import LAYOUT_ROW, Layout, agree_on_layout, layout_of
from deployments.stateful.protocol import Key, Version
from models.junctions import SHIPPED
from models.networks.network import Network
from tests.cities import city_of, entry, small_city
from tests.unit.stateful.authorities import TABLE
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST, settings
from tests.unit.stateful.virtual_time import virtual_time

CITY, SESSION = small_city(), "session-now"
OTHER = city_of(entry("east", 0), entry("north", 1))
COPY = Copy(Version(1, 3), np.ones(128, np.float32))


async def serving(network: Network, **options: bool) -> MemoryStore:
    store = MemoryStore()
    await agree_on_layout(store, TABLE, settings(**options), network)
    return store


def keep(store: MemoryStore, junction: str = "east", session: str = SESSION) -> None:
    row = snapshot_row(Key("run", junction))
    store.tables[TABLE][row] = pack_copy(COPY, cluster_stamp(session))


async def check(store: MemoryStore, network: Network, all_starts: bool = False) -> None:
    await check_network(store, TABLE, network, SESSION, all_starts=all_starts)


async def test_a_first_network_and_the_same_again_are_welcome_with_whatever_is_kept():
    await check(MemoryStore(), CITY)
    store = await serving(CITY)
    keep(store)
    await check(store, CITY)
    await check(store, city_of(entry("west", 2, 2, 4), entry("east", 1), entry("north", 0, 3)))


async def test_another_network_is_refused_with_a_sentence_while_states_are_kept():
    store = await serving(CITY)
    keep(store)
    before = dict(store.tables[TABLE])
    with pytest.raises(AnotherNetworkError) as refusal:
        await check(store, OTHER)
    assert str(refusal.value) == (
        "The network a city has other junctions, phases or lanes than the one that the hidden"
        " states of this application belong to, and 1 of these are kept. Serve the network file"
        " that they belong to and reset its runs, or give the application another name."
    )
    assert store.tables[TABLE] == before


@pytest.mark.parametrize(
    ("present", "wanted"), [(SHIPPED, CITY), (CITY, SHIPPED)], ids=["from", "to"]
)
async def test_the_shipped_network_is_one_of_them(present, wanted):
    store = await serving(present)
    keep(store)
    with pytest.raises(AnotherNetworkError):
        await check(store, wanted)


async def test_once_no_states_are_kept_another_network_has_a_layout_of_its_own():
    store = await serving(CITY)
    await check(store, OTHER)
    layout = await agree_on_layout(store, TABLE, FAST, OTHER)
    assert (layout.generation, layout.network) == (2, OTHER.digest)
    assert [partition.generation for partition in layout.earlier] == [1]


async def test_states_of_an_earlier_start_count_only_where_they_are_restored():
    store = await serving(CITY)
    keep(store, session="session-before")
    await check(store, OTHER)
    with pytest.raises(AnotherNetworkError):
        await check(store, OTHER, all_starts=True)


async def test_without_copies_an_authority_that_may_live_is_enough():
    store = await serving(CITY, snapshots=False)
    await check(store, OTHER)
    (partition,) = Layout.unpack(store.tables[TABLE][LAYOUT_ROW]).partitions
    store.tables[TABLE][partition.row] = LeadershipRecord(1, session="session-before").pack()
    await check(store, OTHER)
    store.tables[TABLE][partition.row] = LeadershipRecord(1, session=SESSION).pack()
    with pytest.raises(AnotherNetworkError, match="no copies are kept"):
        await check(store, OTHER)


@virtual_time
async def test_states_that_are_younger_than_their_copies_are_waited_for():
    store = await serving(CITY)
    (partition,) = Layout.unpack(store.tables[TABLE][LAYOUT_ROW]).partitions
    store.tables[TABLE][partition.row] = LeadershipRecord(1, session=SESSION).pack()
    checking = asyncio.create_task(
        check_network(store, TABLE, OTHER, SESSION, all_starts=False, copied_within_s=1.0)
    )
    await asyncio.sleep(0.9)
    assert not checking.done()
    keep(store)
    with pytest.raises(AnotherNetworkError, match="1 of these are kept"):
        await checking


@virtual_time
async def test_without_an_authority_nothing_is_waited_for_and_never_for_long():
    store = await serving(CITY)
    clock = asyncio.get_running_loop().time
    began = clock()
    await check_network(store, TABLE, OTHER, SESSION, all_starts=False, copied_within_s=3600.0)
    assert clock() - began < 1
    (partition,) = Layout.unpack(store.tables[TABLE][LAYOUT_ROW]).partitions
    store.tables[TABLE][partition.row] = LeadershipRecord(1, session=SESSION).pack()
    await check_network(store, TABLE, OTHER, SESSION, all_starts=False, copied_within_s=3600.0)
    assert clock() - began == pytest.approx(LONGEST_WAIT_S, abs=1)


def test_the_layout_of_the_shipped_network_is_the_one_of_earlier_versions():
    assert "network" not in layout_of(FAST).terms
    assert layout_of(FAST).network == SHIPPED.digest
