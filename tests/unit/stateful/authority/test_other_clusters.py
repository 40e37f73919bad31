"""Two clusters that were given one store never step its states at the same time."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from deployments.stateful.admission import Claimant, admit
from deployments.stateful.authority.fenced_writer import LeadershipRecord, SupersededError
from deployments.stateful.authority.other_clusters import ClusterClaimedError
from deployments.stateful.layout import agree_on_layout
from deployments.stateful.protocol import AuthorityUnavailableError, Key
from tests.support.states import DictStore
from tests.unit.stateful.authorities import (
    TABLE,
    FakeCluster,
    FaultyStore,
    NumberingAuthority,
    join,
    keep,
    make_authority,
    now,
    options,
)
from tests.unit.stateful.simulation.scenario import simulated

OPTIONS = options(lease_s=2.0)
HERE, THERE = "session-here", "session-there"
KEY = Key("default", "300839359")
LEASES_S = OPTIONS.leader_lease_s + OPTIONS.lease_margin_s


async def unknown(process: str) -> bool:
    return False


async def authority_of(session: str, store: DictStore | FaultyStore) -> NumberingAuthority:
    cluster = FakeCluster(session, f"{session}-machine/1/1")
    return await make_authority(OPTIONS, store, cluster)


async def replica_of(session: str, store: DictStore | FaultyStore) -> None:
    """Admit a replica of a cluster."""
    await admit(store, TABLE, Claimant(session, "test"), OPTIONS, unknown)


@simulated
async def test_while_a_cluster_acts_replicas_and_authorities_of_another_are_refused_by_name():
    store = DictStore()
    there = await authority_of(THERE, store)
    session = await join(there, "a")
    renewing = keep(there, session)
    began = now()
    for refused in (replica_of(HERE, store), (await authority_of(HERE, store)).start()):
        with pytest.raises(ClusterClaimedError, match=rf"cluster \({THERE}\) has .*STORE_URL"):
            await refused
    assert now() - began < 2 * LEASES_S
    assert there._leadership.may_act()
    assert (await there.checkout(session, KEY)).version.step == 0
    renewing.cancel()


@simulated
async def test_replicas_of_the_cluster_that_acts_are_admitted_at_once():
    store = DictStore()
    await (await authority_of(THERE, store)).start()
    began = now()
    await replica_of(THERE, store)
    assert now() == began


@simulated
async def test_a_cluster_whose_state_actor_moves_is_not_succeeded_meanwhile():
    store = DictStore()
    there = await authority_of(THERE, store)
    await there.start()
    await there.step_down()
    starting = asyncio.create_task((await authority_of(HERE, store)).start())
    await asyncio.sleep(0.5)
    await (await authority_of(THERE, store)).start()
    with pytest.raises(ClusterClaimedError, match=THERE):
        await starting


@simulated
async def test_of_two_clusters_that_found_a_third_one_silent_one_is_refused():
    store = DictStore()
    there = await authority_of(THERE, store)
    await there.start()
    there._background.cancel()  # as if its machine had stopped
    others = [await authority_of(f"session-{n}", store) for n in range(2)]
    refused = await asyncio.gather(*(each.start() for each in others), return_exceptions=True)
    assert [type(each) for each in refused].count(type(None)) == 1
    assert any(isinstance(each, AuthorityUnavailableError) for each in refused)


@simulated
async def test_a_cluster_that_fell_silent_is_succeeded_after_all_of_its_leases():
    store = FaultyStore()
    there = await authority_of(THERE, store)
    await there.start()
    there._background.cancel()  # as if its machine had stopped
    began = now()
    await replica_of(HERE, store)
    here = await authority_of(HERE, store)
    await here.start()
    assert now() - began > 2 * OPTIONS.leader_lease_s + 2 * LEASES_S
    assert here._leadership.may_act()


@simulated
async def test_a_cluster_with_longer_leases_is_not_taken_for_silent():
    """Its heartbeats are further apart than the time after which this cluster is silent."""
    store = DictStore()
    longer = options(lease_s=10 * OPTIONS.lease_s)
    there = await make_authority(longer, store, FakeCluster(THERE, f"{THERE}-machine/1/1"))
    await there.start()
    with pytest.raises(ClusterClaimedError, match=THERE):
        await replica_of(HERE, store)
    assert there._leadership.may_act()


@simulated
async def test_a_cluster_whose_process_has_ended_is_succeeded_at_once():
    store = DictStore()
    await (await authority_of(THERE, store)).start()
    cluster = FakeCluster(HERE, "machine/2/2")
    cluster.ended = {f"{THERE}-machine/1/1"}
    here = await make_authority(OPTIONS, store, cluster)
    began = now()
    await here.start()
    assert now() - began < 0.1


@simulated
async def test_a_cluster_that_wakes_up_after_another_has_taken_over_ends_and_is_refused():
    store = DictStore()
    there = await authority_of(THERE, store)
    await there.start()
    there._background.cancel()
    here = await authority_of(HERE, store)
    await here.start()
    with pytest.raises(SupersededError):
        await there._leadership.lease.renew()
    with pytest.raises(ClusterClaimedError):
        await (await authority_of(THERE, store)).start()
    assert here._leadership.may_act()


@simulated
async def test_of_two_clusters_that_start_at_once_one_acts():
    store = FaultyStore()
    authorities = [await authority_of(session, store) for session in (HERE, THERE)]
    starting = [asyncio.ensure_future(each.start()) for each in authorities]
    acting = set()
    while now() < 6 * LEASES_S:
        acting.add(tuple(each._leadership.may_act() for each in authorities))
        await asyncio.sleep(0.005)
    assert (True, True) not in acting
    assert acting & {(True, False), (False, True)}
    await asyncio.gather(*starting, return_exceptions=True)


@simulated
async def test_a_heartbeat_is_written_while_the_term_acts_and_missed_ones_cost_nothing():
    store = FaultyStore()
    authority = await authority_of(HERE, store)
    await authority.start()
    await asyncio.sleep(OPTIONS.leader_lease_s)
    writes = authority._leadership.writer.record.writes
    assert writes > 1
    store.server.down = True
    await asyncio.sleep(2 * OPTIONS.leader_lease_s)
    assert authority._leadership.may_act()
    store.server.down = False
    await asyncio.sleep(OPTIONS.leader_lease_s)
    assert authority._leadership.writer.record.writes > writes


@simulated
async def test_a_record_of_an_earlier_version_without_a_heartbeat_is_waited_for():
    store = DictStore()
    (partition,) = (await agree_on_layout(store, TABLE, OPTIONS, "test")).partitions
    old = LeadershipRecord(3, 0, THERE, "node/1/1")
    store.rows[partition.row] = old.pack()
    began = now()
    await replica_of(HERE, store)
    assert now() - began >= 2 * OPTIONS.leader_lease_s


@simulated
async def test_a_store_that_does_not_serve_is_said_to_be_unavailable():
    store = FaultyStore()
    authority = await authority_of(HERE, store)
    store.server.down = True
    with pytest.raises(AuthorityUnavailableError):
        await authority.start()


def test_the_error_passes_between_processes():
    error = ClusterClaimedError(THERE)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
