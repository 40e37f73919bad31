"""How states are spread over authorities, and how processes agree on it (invariant 10)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from deployments.stateful.layout import (
    LAYOUT_ROW,
    N_SLOTS,
    Layout,
    Partition,
    StateStore,
    agree_on_layout,
    layout_of,
    shard_of,
    slot_of,
)
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import Key
from deployments.store import StoreUnavailable
from tests.unit.stateful.authorities import (
    OPTIONS,
    TABLE,
    FaultyStore,
    InterruptedStore,
    options,
)
from tests.unit.stateful.simulation.scenario import simulated

SLOTS = {"300839359": 35, "265580972": 25}
ONE_OF_EACH_SLOT = list(
    {slot_of(Key(f"run-{n}", "1")): Key(f"run-{n}", "1") for n in range(2000)}.values()
)


async def agree(store: StateStore, options: StateOptions = OPTIONS, tag: str = "test") -> Layout:
    return await agree_on_layout(store, TABLE, options, tag)


def test_a_key_has_the_same_slot_in_every_version():
    slots = {entity: slot_of(Key("default", entity)) for entity in SLOTS}
    assert slots == SLOTS
    assert [shard_of(Key("default", entity), 4) for entity in SLOTS] == [
        slot // 16 for slot in SLOTS.values()
    ]


@pytest.mark.parametrize("shards", range(1, N_SLOTS + 1))
def test_every_slot_is_in_one_partition_and_every_partition_has_as_many(shards):
    assert len(ONE_OF_EACH_SLOT) == N_SLOTS
    partitions = replace(layout_of(OPTIONS, "test"), shards=shards).partitions
    taken = [
        partition.shard
        for key in ONE_OF_EACH_SLOT
        for partition in partitions
        if partition.has(key)
    ]
    assert len(taken) == N_SLOTS
    counts = [taken.count(shard) for shard in range(shards)]
    assert max(counts) - min(counts) <= 1
    assert min(counts) > 0


def test_slots_are_used_evenly():
    counts = [0] * N_SLOTS
    for n in range(16_000):
        counts[slot_of(Key(f"run-{n}", "300839359"))] += 1
    assert min(counts) > 150


def test_a_layout_is_read_as_it_was_written():
    earlier = (Partition(7, 1, 3), Partition(8, 0, 1))
    layout = replace(layout_of(OPTIONS, "test"), generation=9, earlier=earlier)
    assert Layout.unpack(layout.pack()) == layout
    assert layout.tag == "test"


@simulated
async def test_the_first_layout_has_a_record_for_each_partition():
    store = FaultyStore()
    layouts = await asyncio.gather(*(agree(store, options(shards=3)) for _ in range(20)))
    assert len(set(map(repr, layouts))) == 1
    layout = layouts[0]
    assert (layout.generation, layout.shards, layout.earlier) == (1, 3, ())
    assert store.rows.keys() == {LAYOUT_ROW, *(each.row for each in layout.partitions)}
    assert store.server.counts["changes"] == 1


@simulated
async def test_options_that_processes_need_not_share_do_not_change_the_layout():
    store = FaultyStore()
    await agree(store)
    again = await agree(store, options(max_states=7, loss_bound_s=0.5, durability="actor"))
    assert again.generation == 1


@pytest.mark.parametrize(
    "change", [{"shards": 3}, {"lease_s": 0.3}, {"durability": "store"}, {"tag": "other"}], ids=str
)
@simulated
async def test_another_layout_is_a_generation_that_names_the_earlier_partitions(change):
    store = FaultyStore()
    first = await agree(store)
    changed = dict(change)
    tag = changed.pop("tag", "test")
    second = await agree(store, options(**changed), tag)
    assert (second.generation, second.earlier) == (2, tuple(first.partitions))
    third = await agree(store)
    assert (third.generation, third.earlier) == (3, (*first.partitions, *second.partitions))
    for partition in first.partitions:
        del store.rows[partition.row]  # it is retired
    fourth = await agree(store, options(**changed), tag)
    assert fourth.earlier == (*second.partitions, *third.partitions)


@simulated
async def test_processes_with_different_options_all_get_their_own_layout():
    store, wanted = FaultyStore(), [1, 2, 3]
    layouts = await asyncio.gather(*(agree(store, options(shards=shards)) for shards in wanted))
    assert [layout.shards for layout in layouts] == wanted
    assert sorted(layout.generation for layout in layouts) == [1, 2, 3]
    last = max(layouts, key=lambda layout: layout.generation)
    assert Layout.unpack(store.rows[LAYOUT_ROW]) == last
    assert {partition.generation for partition in last.earlier} == {1, 2}


@simulated
async def test_a_store_that_has_lost_its_layout_meanwhile_gets_a_first_one():
    store = InterruptedStore()
    await agree(store)

    async def lose_all() -> None:
        store.rows.clear()

    store.after_a_look = lose_all
    layout = await agree(store, options(shards=2))
    assert (layout.generation, layout.earlier) == (1, ())


@simulated
async def test_a_change_that_arrives_late_is_not_made_after_the_next_one():
    store = FaultyStore()
    store.server.late, store.server.late_s = 1.0, (0.1, 0.1)
    with pytest.raises(StoreUnavailable):
        await agree(store, options(shards=2))
    store.server.late = 0.0
    layout = await agree(store, options(shards=3))
    rows = dict(store.rows)
    await asyncio.sleep(1)
    assert store.rows == rows
    assert Layout.unpack(rows[LAYOUT_ROW]) == layout
