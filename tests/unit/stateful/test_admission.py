"""Two clusters never serve the states of one table at once."""

from __future__ import annotations

import asyncio
import socket

import pytest

from deployments.stateful.admission import (
    CLUSTER_ROW,
    ClusterClaimedError,
    claim_cluster,
    is_listening,
)
from deployments.store import Expected
from tests.support.states import DictStore
from tests.unit.stateful.authorities import TABLE, FaultyStore
from tests.unit.stateful.simulation.scenario import simulated

HERE, THERE = "10.0.0.1:6390", "10.0.0.2:6390"


async def dead(address: str) -> bool:
    return False


async def alive(address: str) -> bool:
    return True


@simulated
async def test_a_cluster_that_is_alive_keeps_the_states_and_refuses_the_others_by_name():
    store = FaultyStore()
    await claim_cluster(store, TABLE, HERE, alive)
    await claim_cluster(store, TABLE, HERE, alive)
    with pytest.raises(ClusterClaimedError, match=HERE):
        await claim_cluster(store, TABLE, THERE, alive)
    assert store.rows == {CLUSTER_ROW: HERE.encode()}
    assert store.server.counts["changes"] == 1


async def test_the_states_of_a_dead_cluster_pass_to_the_next():
    store = DictStore()
    await claim_cluster(store, TABLE, HERE, alive)
    await claim_cluster(store, TABLE, THERE, dead)
    assert store.rows == {CLUSTER_ROW: THERE.encode()}


@simulated
async def test_of_two_clusters_that_start_at_once_one_is_refused():
    store = FaultyStore()
    outcomes = await asyncio.gather(
        *(claim_cluster(store, TABLE, address, alive) for address in (HERE, THERE)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes if outcome] == [ClusterClaimedError]


async def test_a_cluster_that_claims_between_look_and_write_is_noticed():
    class Late(DictStore):
        async def change(self, table, puts, deletes=(), *, when):
            if not self.rows:
                first = {CLUSTER_ROW: THERE.encode()}
                await super().change(table, first, when=Expected(CLUSTER_ROW, None))
            return await super().change(table, puts, deletes, when=when)

    store = Late()
    with pytest.raises(ClusterClaimedError, match=THERE):
        await claim_cluster(store, TABLE, HERE, alive)
    assert store.rows == {CLUSTER_ROW: THERE.encode()}


async def test_a_cluster_is_alive_while_a_process_listens_at_its_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert not await is_listening(address)
        taken.listen()
        assert await is_listening(address)


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1:", "127.0.0.1:x"])
async def test_an_invalid_address_is_not_alive(address):
    assert not await is_listening(address)
