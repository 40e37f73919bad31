"""How states are spread over authorities, and how they move when that changes (invariant 10)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from deployments.stateful.layout import (
    LAYOUT_ROW,
    N_SLOTS,
    Layout,
    Partition,
    agree_on_layout,
    layout_of,
    shard_of,
    slot_of,
)
from deployments.stateful.protocol import DismissedError, Key, SessionAbandonedError
from deployments.store import StoreUnavailable
from tests.unit.stateful.authorities import TABLE
from tests.unit.stateful.lineage import Outcome
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.models import ENTITIES
from tests.unit.stateful.options import FAST, settings
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import Replica, World, gather, until

KEYS = [Key(run, junction) for run in ("a", "b", "c") for junction in ENTITIES]


class TestSlots:
    def test_a_key_always_has_the_same_slot_and_shard(self):
        keys = [Key("default", junction) for junction in ENTITIES]
        assert [slot_of(key) for key in keys] == SLOTS
        assert [shard_of(key, 4) for key in keys] == [slot // 16 for slot in SLOTS]

    @pytest.mark.parametrize("shards", range(1, N_SLOTS + 1))
    def test_every_slot_is_in_exactly_one_seat_and_no_seat_is_empty(self, shards):
        partitions = replace(layout_of(FAST, "test"), shards=shards).partitions
        taken: list[int] = []
        for key in ONE_OF_EACH_SLOT:
            having = [partition.shard for partition in partitions if partition.has(key)]
            assert len(having) == 1
            taken += having
        assert set(taken) == set(range(shards))
        counts = [taken.count(shard) for shard in range(shards)]
        assert max(counts) - min(counts) <= 1

    def test_slots_are_used_evenly(self):
        counts = [0] * N_SLOTS
        for n in range(16_000):
            counts[slot_of(Key(f"run-{n}", "300839359"))] += 1
        assert min(counts) > 150


SLOTS = [slot_of(Key("default", junction)) for junction in ENTITIES]
ONE_OF_EACH_SLOT = list(
    {slot_of(Key(f"run-{n}", "1")): Key(f"run-{n}", "1") for n in range(2000)}.values()
)


class TestAgreement:
    @virtual_time
    async def test_the_first_one_makes_it_with_a_row_for_each_seat(self):
        store = MemoryStore()
        layout = await agree_on_layout(store, TABLE, settings(shards=3), "test")
        assert (layout.generation, layout.shards, layout.earlier) == (1, 3, ())
        assert store.tables[TABLE].keys() == {
            LAYOUT_ROW,
            *(partition.row for partition in layout.partitions),
        }

    @virtual_time
    async def test_those_who_want_the_same_agree_at_once_on_one_generation(self):
        store = MemoryStore()
        layouts = await gather(
            *(agree_on_layout(store, TABLE, settings(shards=3), "test") for _ in range(20))
        )
        assert len(set(map(repr, layouts))) == 1
        assert store.changes == 1

    @virtual_time
    async def test_bounds_and_times_of_one_replica_are_no_change(self):
        store = MemoryStore()
        await agree_on_layout(store, TABLE, FAST, "test")
        again = await agree_on_layout(
            store, TABLE, settings(max_states=7, loss_bound_s=0.5), "test"
        )
        assert again.generation == 1

    @pytest.mark.parametrize(
        "change",
        [
            {"shards": 3},
            {"lease_s": 0.3},
            {"durability": "store"},
        ],
        ids=str,
    )
    @virtual_time
    async def test_another_layout_is_a_new_generation_with_the_seats_of_the_earlier_ones(
        self, change
    ):
        store = MemoryStore()
        first = await agree_on_layout(store, TABLE, FAST, "test")
        second = await agree_on_layout(store, TABLE, settings(**change), "test")
        assert (second.generation, second.earlier) == (2, (Partition(1, 0, 1),))
        third = await agree_on_layout(store, TABLE, FAST, "test")
        assert third.generation == 3
        assert third.earlier == (*first.partitions, *second.partitions)

    @virtual_time
    async def test_seats_that_were_given_up_are_named_no_more(self):
        store = MemoryStore()
        first = await agree_on_layout(store, TABLE, FAST, "test")
        del store.tables[TABLE][first.partitions[0].row]
        second = await agree_on_layout(store, TABLE, settings(shards=2), "test")
        assert second.earlier == ()

    @virtual_time
    async def test_those_who_want_different_layouts_all_get_one_of_their_own_kind(self):
        store = MemoryStore()
        wanted = [1, 2, 3]
        layouts = await gather(
            *(agree_on_layout(store, TABLE, settings(shards=shards), "test") for shards in wanted)
        )
        assert [layout.shards for layout in layouts] == wanted
        assert sorted(layout.generation for layout in layouts) == [1, 2, 3]
        last = max(layouts, key=lambda layout: layout.generation)
        assert Layout.unpack(store.tables[TABLE][LAYOUT_ROW]) == last
        assert {partition.generation for partition in last.earlier} == {1, 2}

    @virtual_time
    async def test_a_change_that_arrives_late_is_made_once_or_never(self):
        store = MemoryStore()
        store.late, store.late_s = 1.0, 0.1
        with pytest.raises(StoreUnavailable):
            await agree_on_layout(store, TABLE, settings(shards=2), "test")
        store.late = 0.0
        layout = await agree_on_layout(store, TABLE, settings(shards=3), "test")
        rows = dict(store.tables[TABLE])
        await asyncio.sleep(1)
        assert store.tables[TABLE] == rows
        assert Layout.unpack(rows[LAYOUT_ROW]) == layout

    def test_a_layout_is_read_as_it_was_written(self):
        layout = replace(
            layout_of(FAST, "test"), generation=9, earlier=(Partition(7, 1, 3), Partition(8, 0, 1))
        )
        assert Layout.unpack(layout.pack()) == layout


async def all_step(world: World, replica: Replica, step: int) -> None:
    asked = await gather(*(world.predict(replica, key) for key in KEYS))
    assert [each.step for each in asked] == [step] * len(KEYS)


async def dismissed(replica: Replica) -> None:
    """Wait until a replica of an earlier layout has ended."""
    await until(lambda: has_ended(replica))
    with pytest.raises(SessionAbandonedError) as told:
        replica.engine.check_health()
    assert isinstance(told.value.__cause__, DismissedError)
    assert not replica.engine.connected


def has_ended(replica: Replica) -> bool:
    try:
        replica.engine.check_health()
    except SessionAbandonedError:
        return True
    return False


class TestMove:
    @virtual_time
    async def test_states_stay_when_their_number_of_authorities_changes_to_and_fro(self):
        world = await World().start(2)
        await all_step(world, world.replicas[0], 1)
        await all_step(world, world.replicas[1], 2)
        for step, shards in ((3, 3), (4, 1), (5, 2)):
            earlier = world.replicas[-2:]
            await world.lay_out(shards)
            newer = [await world.add_replica() for _ in range(2)]
            await all_step(world, newer[0], step)
            for replica in earlier:
                await dismissed(replica)
        world.history.check()

    @virtual_time
    async def test_nothing_is_granted_before_the_earlier_owner_has_given_all_back(self):
        world = await World().start(1)
        (slow,) = world.replicas
        await all_step(world, slow, 1)
        await asyncio.sleep(0.05)
        slow.pause()
        began = asyncio.get_running_loop().time()
        await world.lay_out(3)
        newer = await world.add_replica()
        assert asyncio.get_running_loop().time() - began > FAST.lease_s / 2
        await all_step(world, newer, 2)
        slow.resume()
        await dismissed(slow)
        world.history.check()

    @pytest.mark.parametrize("after_s", [0.001, 0.003, 0.005, 0.01, 0.03, 0.1])
    @virtual_time
    async def test_an_authority_that_dies_while_it_gives_up_loses_nothing(self, after_s):
        world = await World().start(1)
        (owner,) = world.replicas
        await all_step(world, owner, 1)
        (earlier,) = world.shards
        await world.lay_out(3)
        adding = asyncio.create_task(world.add_replica())
        await until(lambda: earlier.life is None or earlier.authority._retiring is not None)
        await asyncio.sleep(after_s)
        await earlier.kill()
        newer = await adding
        await all_step(world, newer, 2)
        await dismissed(owner)
        world.history.check()

    @virtual_time
    async def test_requests_under_way_are_answered_by_the_newer_or_refused(self):
        world = await World().start(1)
        (owner,) = world.replicas
        await all_step(world, owner, 1)
        under_way: list[asyncio.Future[Any]] = []

        async def traffic() -> None:
            while owner.engine.connected:
                under_way.append(world.ask(owner, KEYS[len(under_way) % len(KEYS)])[1])
                await asyncio.sleep(0.002)

        clients = asyncio.create_task(traffic())
        await asyncio.sleep(0.05)
        await world.lay_out(3)
        newer = await world.add_replica()
        await gather(*(world.predict(newer, key) for key in KEYS))
        await clients
        await asyncio.wait(under_way, timeout=20)
        assert all(asked.outcome is not Outcome.PENDING for asked in world.history.asked)
        world.history.check()

    @virtual_time
    async def test_an_owner_that_dies_later_cannot_bring_back_what_another_has_stepped_since(self):
        """Epochs grow over the layouts, however often authorities of earlier ones have begun."""
        world = await World(settings=settings(snapshot_period_s=1000.0)).start(1)
        key = KEYS[0]
        for _ in range(3):
            await world.kill_authority()
            assert (await world.predict(world.replicas[0], key)).outcome is Outcome.ANSWERED
        await world.lay_out(2)
        sleeper, other = [await world.add_replica() for _ in range(2)]
        for run in range(20):
            await world.predict(sleeper, Key(f"run-{run}", key.entity))
        await world.predict(sleeper, key)
        await asyncio.sleep(0.05)
        sleeper.pause()
        for shard in world.shards:
            await shard.kill()
        taken_over = await world.predict(other, key)
        assert taken_over.outcome is Outcome.ANSWERED
        await other.batcher.close()
        await other.engine.close()
        sleeper.resume()
        assert (await world.predict(sleeper, key)).step == taken_over.step + 1
        # what the sleeper had from the earlier authority died with that one
        world.history.check(lambda asked: asked.replica == sleeper.name)

    @virtual_time
    async def test_a_reset_does_not_void_what_later_lives_grant(self):
        world = await World().start(1)
        for _ in range(3):
            await world.kill_authority()
            await world.predict(world.replicas[0], KEYS[0])
        await world.lay_out(2)
        replica = await world.add_replica()
        await world.predict(replica, KEYS[0])
        await world.reset(replica, KEYS[0].run)
        for step in range(1, 4):
            for shard in world.shards:
                await shard.kill()
            assert (await world.predict(replica, KEYS[0])).step == step
        world.history.check()
