"""How long an authority may be sure of its partition, and whom it asks."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.fenced_writer import FencedWriter, SupersededError
from deployments.stateful.authority.leadership import LeaderLease
from deployments.stateful.layout import Partition, agree_on_layout
from tests.unit.stateful.authorities import TABLE, FakeCluster, now
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST
from tests.unit.stateful.virtual_time import virtual_time

TENURE_S = 1.0


class Seated:
    """A leader_lease that has just begun, with what it asks."""

    async def begin(self) -> Seated:
        self.store = MemoryStore(latency_s=(0.002, 0.002))
        await agree_on_layout(self.store, TABLE, FAST, "test")
        self.cluster = FakeCluster()
        self.writer = FencedWriter(self.store, TABLE, Partition())
        self.leader_lease = LeaderLease(self.writer, self.cluster, TENURE_S, now)
        taken_at = now()
        await self.writer.acquire("first", "node/1/1")
        self.leader_lease.begin(taken_at)
        return self

    async def succeed(self) -> None:
        await FencedWriter(self.store, TABLE, Partition()).acquire("first", "node/2/2")


@virtual_time
async def test_it_is_over_when_nobody_confirms_it():
    seated = await Seated().begin()
    assert seated.leader_lease.is_valid
    await asyncio.sleep(TENURE_S)
    assert not seated.leader_lease.is_valid


@pytest.mark.parametrize("store_is_down", [False, True], ids=["to the store", "to the cluster"])
@virtual_time
async def test_it_counts_from_before_the_question(store_is_down):
    """A successor may have taken the partition while the answer was on its way."""
    seated = await Seated().begin()
    seated.store.latency_s = (0.2, 0.2)
    seated.store.down = store_is_down
    seated.cluster.answers_after_s = 0.2
    asked = now() + (0.1 if store_is_down else 0.0)
    await seated.leader_lease.renew()
    await asyncio.sleep(asked + TENURE_S - now() - 0.001)
    assert seated.leader_lease.is_valid
    await asyncio.sleep(0.002)
    assert not seated.leader_lease.is_valid


@virtual_time
async def test_the_store_confirms_it_for_ever():
    seated = await Seated().begin()
    seated.cluster.current = None
    keeping = asyncio.create_task(seated.leader_lease.keep())
    for _ in range(50):
        await asyncio.sleep(TENURE_S / 10)
        assert seated.leader_lease.is_valid
    keeping.cancel()


@pytest.mark.parametrize("hang_s", [0.0, 0.9 * TENURE_S], ids=["refuses", "hangs"])
@virtual_time
async def test_the_cluster_confirms_it_while_the_store_is_out_of_reach(hang_s):
    seated = await Seated().begin()
    keeping = asyncio.create_task(seated.leader_lease.keep())
    await asyncio.sleep(TENURE_S)
    seated.store.down, seated.store.down_after_s = True, hang_s
    for _ in range(50):
        await asyncio.sleep(TENURE_S / 10)
        assert seated.leader_lease.is_valid
    keeping.cancel()


@virtual_time
async def test_nobody_to_ask_is_no_proof_and_it_runs_out():
    seated = await Seated().begin()
    seated.store.down, seated.cluster.current = True, None
    keeping = asyncio.create_task(seated.leader_lease.keep())
    await asyncio.sleep(TENURE_S)
    assert not seated.leader_lease.is_valid
    assert not keeping.done()
    seated.store.down = False
    await asyncio.sleep(TENURE_S / 2)
    assert seated.leader_lease.is_valid
    keeping.cancel()


@virtual_time
async def test_a_successor_in_the_store_ends_it_whatever_the_cluster_says():
    seated = await Seated().begin()
    await seated.succeed()
    with pytest.raises(SupersededError):
        await seated.leader_lease.keep()
    assert now() < TENURE_S


@virtual_time
async def test_a_successor_in_the_cluster_ends_it_while_the_store_is_out_of_reach():
    seated = await Seated().begin()
    seated.store.down, seated.cluster.current = True, False
    with pytest.raises(SupersededError):
        await seated.leader_lease.keep()
    assert now() < TENURE_S


@virtual_time
async def test_a_seat_that_was_given_up_ends_it():
    seated = await Seated().begin()
    await seated.writer.retire([])
    with pytest.raises(SupersededError):
        await seated.leader_lease.renew()
