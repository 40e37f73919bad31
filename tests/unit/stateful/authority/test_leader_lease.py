"""How long an authority may be sure of its term, and what confirms it."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.fenced_writer import FencedWriter, SupersededError
from deployments.stateful.authority.leadership import LeaderLease
from deployments.stateful.layout import Partition, agree_on_layout
from tests.unit.stateful.authorities import OPTIONS, TABLE, FakeCluster, FaultyStore, now
from tests.unit.stateful.simulation.network import STORE
from tests.unit.stateful.simulation.scenario import simulated

LEASE_S = 1.0


class Term:
    """A leader lease that has just begun, with what confirms it."""

    async def begin(self) -> Term:
        self.store = FaultyStore()
        await agree_on_layout(self.store, TABLE, OPTIONS, "test")
        self.cluster = FakeCluster()
        self.writer = FencedWriter(self.store, TABLE, Partition())
        self.lease = LeaderLease(self.writer, self.cluster, LEASE_S, now)
        acquired_at = now()
        await self.writer.acquire("first", "node/1/1")
        self.lease.begin(acquired_at)
        return self

    async def stays_valid(self) -> None:
        keeping = asyncio.create_task(self.lease.keep())
        for _ in range(50):
            await asyncio.sleep(LEASE_S / 10)
            assert self.lease.is_valid
        keeping.cancel()


@simulated
async def test_it_ends_without_a_confirmation():
    term = await Term().begin()
    assert term.lease.is_valid
    await asyncio.sleep(LEASE_S)
    assert not term.lease.is_valid


@pytest.mark.parametrize("store_is_down", [False, True], ids=["of the store", "of the cluster"])
@simulated
async def test_it_counts_from_before_the_confirmation(store_is_down):
    """A later term may have begun while the response was on its way."""
    term = await Term().begin()
    term.store.latency_s = term.cluster.responds_after_s = 0.2
    term.store.server.down = store_is_down
    requested_at = now() + (0.2 if store_is_down else 0.0)
    await term.lease.renew()
    await asyncio.sleep(requested_at + LEASE_S - now() - 0.001)
    assert term.lease.is_valid
    await asyncio.sleep(0.002)
    assert not term.lease.is_valid


@simulated
async def test_the_store_confirms_it_without_the_cluster():
    term = await Term().begin()
    term.cluster.current = None
    await term.stays_valid()


@pytest.mark.parametrize("hangs", [False, True])
@simulated
async def test_the_cluster_confirms_it_without_the_store(hangs):
    term = await Term().begin()
    if hangs:
        term.store.network.cut("test", STORE, silent=True)
    else:
        term.store.server.down = True
    await term.stays_valid()


@simulated
async def test_without_both_it_ends_and_is_valid_again_when_the_store_serves():
    term = await Term().begin()
    term.store.server.down, term.cluster.current = True, None
    keeping = asyncio.create_task(term.lease.keep())
    await asyncio.sleep(LEASE_S)
    assert not term.lease.is_valid
    assert not keeping.done()
    term.store.server.down = False
    await asyncio.sleep(LEASE_S / 2)
    assert term.lease.is_valid
    keeping.cancel()


@pytest.mark.parametrize("known_to", ["the store", "the cluster", "the store as retired"])
@simulated
async def test_a_later_term_ends_it(known_to):
    term = await Term().begin()
    if known_to == "the store":
        await FencedWriter(term.store, TABLE, Partition()).acquire("first", "node/2/2")
    elif known_to == "the cluster":
        term.store.server.down, term.cluster.current = True, False
    else:
        await term.writer.retire([])
    with pytest.raises(SupersededError):
        await term.lease.keep()
    assert now() < LEASE_S
