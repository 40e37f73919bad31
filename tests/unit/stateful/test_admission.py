"""Two clusters never serve the hidden states of one table at once."""

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
from tests.unit.stateful.authorities import TABLE
from tests.unit.stateful.memory_store import MemoryStore

HERE, THERE = "10.0.0.1:6390", "10.0.0.2:6390"


async def dead(cluster: str) -> bool:
    return False


async def alive(cluster: str) -> bool:
    return True


def owner_in(store: MemoryStore) -> str:
    return store.tables[TABLE][CLUSTER_ROW].decode()


async def test_the_first_cluster_has_them_and_comes_back_to_them_without_being_asked():
    store = MemoryStore()
    await claim_cluster(store, TABLE, HERE, alive)
    await claim_cluster(store, TABLE, HERE, alive)
    assert owner_in(store) == HERE
    assert store.changes == 1


async def test_another_cluster_is_refused_by_name_while_the_first_lives_and_changes_nothing():
    store = MemoryStore()
    await claim_cluster(store, TABLE, HERE, alive)
    with pytest.raises(ClusterClaimedError, match=HERE):
        await claim_cluster(store, TABLE, THERE, alive)
    assert owner_in(store) == HERE
    assert store.changes == 1


async def test_what_a_dead_cluster_had_goes_to_the_next():
    store = MemoryStore()
    await claim_cluster(store, TABLE, HERE, alive)
    await claim_cluster(store, TABLE, THERE, dead)
    assert owner_in(store) == THERE


async def test_of_two_that_begin_at_once_one_is_refused():
    store = MemoryStore()
    outcomes = await asyncio.gather(
        *(claim_cluster(store, TABLE, cluster, alive) for cluster in (HERE, THERE)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes if outcome] == [ClusterClaimedError]


async def test_a_cluster_that_comes_between_look_and_write_is_seen():
    class Late(MemoryStore):
        async def change(self, table, puts, deletes=(), *, when):
            if not self.changes:
                await super().change(
                    table, {CLUSTER_ROW: THERE.encode()}, when=Expected(CLUSTER_ROW, None)
                )
            return await super().change(table, puts, deletes, when=when)

    store = Late()
    with pytest.raises(ClusterClaimedError, match=THERE):
        await claim_cluster(store, TABLE, HERE, alive)
    assert owner_in(store) == THERE


async def test_a_cluster_lives_while_something_listens_at_its_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert not await is_listening(address)
        taken.listen()
        assert await is_listening(address)


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1:", "127.0.0.1:x"])
async def test_what_is_no_address_is_no_living_cluster(address):
    assert not await is_listening(address)
