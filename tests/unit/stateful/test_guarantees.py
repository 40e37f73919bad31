"""What the engine guarantees under faults, as scenarios (see "Cost of each fault" in the protocol).

Random schedules look for lost steps in every combination of faults. These scenarios check how long
a fault delays responses, and what random schedules seldom meet. Each runs with two models: their
states have the shapes and data types of the policy's GRU and of a two-layer LSTM.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from deployments.stateful.layout import shard_of
from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.cluster import KEYS
from tests.unit.stateful.simulation.history import Outcome
from tests.unit.stateful.simulation.network import STORE
from tests.unit.stateful.simulation.scenario import KEY, Scenario, scenario, start, until
from tests.unit.stateful.simulation.times import (
    CLOSE_TIMEOUT_S,
    KEEP_RELEASED_S,
    OPTIONS,
)

COMMITTED_S = 0.02
WRITTEN_S = 2 * OPTIONS.snapshot_period_s
BROKEN_S = OPTIONS.lease_s + OPTIONS.lease_margin_s + 0.05  # by then an expired lease is broken
SOON_S = 0.06


@contextlib.contextmanager
def takes(cluster: Scenario, at_most_s: float, at_least_s: float = 0.0) -> Iterator[None]:
    began = cluster.loop.now
    yield
    assert at_least_s <= cluster.loop.now - began <= at_most_s


async def without_store(hangs: bool = False, **options: Any) -> Scenario:
    """Return a cluster whose store fails after two replicas have made a step each."""
    cluster = await start(2, **options)
    for replica in cluster.replicas:
        await cluster.step(replica)
    await asyncio.sleep(WRITTEN_S)
    if hangs:
        for name in (cluster.actor().node, "replica-2"):  # the next one
            cluster.faults.cut(name, STORE)
    else:
        cluster.faults.stop_store()
    return cluster


# Replicas


@scenario
async def test_a_state_moves_between_replicas_and_its_owner_steps_it_without_a_message():
    cluster = await start(2)
    for n in range(20):
        assert (await cluster.step(cluster.replicas[n % 2])).step == n + 1
    await asyncio.sleep(COMMITTED_S)
    cluster.network.latency_s = (0.1, 0.1)
    with takes(cluster, 0.11):  # from the client to the replica
        await cluster.step(cluster.replicas[1])


@pytest.mark.parametrize("noticed", [True, False])
@scenario
async def test_a_dead_replica_costs_a_lease_if_ray_does_not_notice(noticed):
    cluster = await start(2)
    owner, other = cluster.replicas
    await cluster.step(owner)
    await asyncio.sleep(COMMITTED_S)
    cluster.faults.kill_replica(owner, 0.0 if noticed else None)
    with takes(cluster, SOON_S if noticed else BROKEN_S):
        assert (await cluster.step(other)).step == 2


@scenario
async def test_a_stalled_replica_never_answers_from_an_old_state():
    cluster = await start(2)
    stalled, other = cluster.replicas
    await cluster.step(stalled)
    await asyncio.sleep(COMMITTED_S)
    await cluster.step(stalled)
    cluster.faults.stall_replica(stalled)  # before the second commit
    with takes(cluster, BROKEN_S, OPTIONS.lease_s):
        assert (await cluster.step(other)).step == 2
    cluster.faults.heal()
    await asyncio.sleep(0.1)
    assert stalled.engine.counts.states_refused == 1
    assert (await cluster.step(stalled)).step == 3
    cluster.lost = {"not committed: the replica stalled": 1}


@scenario
async def test_a_replica_that_was_suspended_for_longer_than_its_lease_does_not_step():
    cluster = await start(2)
    suspended, other = cluster.replicas
    await cluster.step(suspended)
    await asyncio.sleep(COMMITTED_S)
    cluster.faults.suspend_replica(suspended)
    assert (await cluster.step(other)).step == 2
    cluster.faults.heal()
    assert not suspended.owns(KEY)
    assert (await cluster.step(suspended)).step == 3


@scenario
async def test_a_step_from_before_a_suspend_counts_as_old_as_it_is():
    cluster = await start(2)
    suspended = cluster.replicas[0]
    await cluster.step(suspended)
    cluster.faults.suspend_replica(suspended, 2 * OPTIONS.loss_bound_s)
    await asyncio.sleep(2 * OPTIONS.loss_bound_s)
    assert suspended.process.run(suspended.engine.responses_wait)


@pytest.mark.parametrize("durability", ["actor", "store"])
@scenario
async def test_a_replica_whose_clocks_stopped_answers_nothing_that_is_lost(durability):
    cluster = await start(2, durability=durability)
    paused, other = cluster.replicas
    await cluster.step(paused)
    cluster.faults.suspend_replica(paused, lease_clock_stops=True)
    assert (await cluster.step(other)).step == 2
    cluster.faults.heal()
    assert (await cluster.step(paused)).step == 3


@scenario
async def test_a_short_stall_costs_nothing():
    cluster = await start(2)
    owner, other = cluster.replicas
    await cluster.step(owner)
    cluster.faults.stall_replica(owner, OPTIONS.lease_s / 3)
    with takes(cluster, OPTIONS.lease_s / 2):
        assert (await cluster.step(other)).step == 2
    assert owner.engine.counts.sessions == 1


@pytest.mark.parametrize("back_after_s", [0.1, None])
@scenario
async def test_a_replica_that_closes_without_the_authority_waits_for_it_for_a_while(back_after_s):
    cluster = await start(2, durability="actor")
    leaving, staying = cluster.replicas
    for _ in range(5):
        await cluster.step(leaving)
    cluster.kill_actor(back_after_s or 100.0)
    with takes(cluster, CLOSE_TIMEOUT_S + 0.1, back_after_s or CLOSE_TIMEOUT_S):
        await cluster.close(leaving)
    if back_after_s is not None:
        assert (await cluster.step(staying)).step == 6


@scenario
async def test_a_replica_that_closes_keeps_its_lease_until_a_lost_commit_has_been_sent_again():
    cluster = await start(2, durability="store_async")
    leaving, staying = cluster.replicas
    await cluster.step(leaving)
    await asyncio.sleep(COMMITTED_S)
    await cluster.step(leaving)
    cluster.faults.cut(leaving.name, cluster.actor().node, for_s=COMMITTED_S)
    await asyncio.sleep(COMMITTED_S)
    with takes(cluster, CLOSE_TIMEOUT_S, OPTIONS.lease_s):
        await cluster.close(leaving)
    assert (await cluster.step(staying)).step == 3


# The authority


@scenario
async def test_without_the_authority_owners_step_on_and_responses_wait_from_the_bound_on():
    cluster = await start()
    (owner,) = cluster.replicas
    await cluster.step(owner)
    await asyncio.sleep(COMMITTED_S)
    killed = cluster.loop.now
    cluster.kill_actor(down_s=0.1)
    requests = []
    while cluster.loop.now < killed + 0.1:
        requests.append(cluster.send(owner, KEY))
        await asyncio.sleep(0.004)
    await asyncio.sleep(SOON_S)
    assert [each.step for each in requests] == list(range(2, len(requests) + 2))
    for each in requests:
        assert each.ended is not None
        at_once = each.sent <= killed + OPTIONS.loss_bound_s
        assert (each.ended - each.sent < 0.002) is at_once
        assert at_once or killed + 0.1 < each.ended < killed + 0.1 + SOON_S
    assert owner.engine.counts.sessions == 2


# Resets


@scenario
async def test_what_was_released_before_a_reset_stays_void_for_as_long_as_it_is_claimed():
    cluster = await start(2, run_ttl_s=0.5)
    first, second = cluster.replicas
    for replica in (first, first, second):
        await cluster.step(replica)
    await cluster.clear(second)
    await asyncio.sleep(KEEP_RELEASED_S - 0.2)
    cluster.kill_actor()
    assert (await cluster.step(first)).step == 1


# The store


@pytest.mark.parametrize("hangs", [False, True])
@scenario
async def test_without_the_store_owners_step_on_and_states_move(hangs):
    cluster = await without_store(hangs)
    for n in range(40):
        with takes(cluster, 0.05):
            assert (await cluster.step(cluster.replicas[n // 10 % 2])).step == n + 3
        await asyncio.sleep(0.05)
    assert (await cluster.step(cluster.replicas[0], Key("new run", "1"))).step == 1
    assert [replica.engine.counts.sessions for replica in cluster.replicas] == [1, 1]


@pytest.mark.parametrize("hangs", [False, True])
@scenario
async def test_without_the_store_a_member_reconnects_and_a_new_replica_waits(hangs):
    cluster = await without_store(hangs)
    away, other = cluster.replicas
    cluster.faults.cut_replica(away, for_s=1.0)
    await asyncio.sleep(0.5)
    assert (await cluster.step(other)).step == 3
    await asyncio.sleep(0.6)
    assert (await cluster.step(away)).step == 4
    new = cluster.add_replica()
    await asyncio.sleep(1)
    assert not new.ready
    cluster.faults.heal()
    await until(lambda: new.ready)
    assert (await cluster.step(new)).step == 5


@scenario
async def test_with_durability_store_a_response_waits_for_the_store_and_survives_everything():
    cluster = await without_store(durability="store", snapshot_period_s=1000.0)
    request = cluster.send(cluster.replicas[1], KEY)
    await asyncio.sleep(OPTIONS.commit_timeout_s / 2)
    assert request.outcome is Outcome.PENDING
    cluster.faults.heal()
    await until(lambda: request.outcome is Outcome.RESPONDED)
    for replica in cluster.replicas:
        cluster.faults.kill_replica(replica)
    cluster.kill_actor()
    (late,) = await cluster.add_replicas()
    assert (await cluster.step(late)).step == request.step + 1


@scenario
async def test_with_durability_store_async_a_state_moves_only_when_the_store_has_it():
    cluster = await without_store(durability="store_async")
    other, owner = cluster.replicas
    assert (await cluster.step(owner)).step == 3
    request = cluster.send(other, KEY)
    await asyncio.sleep(OPTIONS.checkout_timeout_s / 2)
    assert request.outcome is Outcome.PENDING
    cluster.faults.heal()
    await until(lambda: request.outcome is Outcome.RESPONDED)
    assert request.step == 4


@scenario
async def test_a_closing_replica_waits_until_the_store_has_its_states():
    cluster = await without_store()
    leaving, other = cluster.replicas
    await cluster.step(leaving)
    leaving.close()
    await asyncio.sleep(CLOSE_TIMEOUT_S / 2)
    assert not leaving.closed
    cluster.faults.heal()
    await until(lambda: leaving.closed)
    cluster.kill_actor()
    with takes(cluster, 0.5):
        assert (await cluster.step(other)).step == 4


# Shards and layouts


@scenario
async def test_a_dead_authority_stops_only_the_states_of_its_shard():
    cluster = await start(2, shards=3)
    for key in KEYS:
        assert (await cluster.step(cluster.replicas[0], key)).step == 1
    await asyncio.sleep(COMMITTED_S)
    for number, actor in enumerate(cluster.present_actors):
        expected = sum(shard_of(key, 3) == number for key in KEYS)
        assert actor.authority.n_states == expected
    counts = cluster.replicas[0].engine.counts
    assert counts.checkouts == counts.states_committed == len(KEYS)
    assert (counts.sessions, 0 < counts.commit_lag_s < 0.02) == (3, True)
    cluster.kill_actor(down_s=100.0)
    await asyncio.sleep(0.5)
    assert not cluster.replicas[1].process.run(lambda: cluster.replicas[1].engine.connected)
    others = [key for key in KEYS if shard_of(key, 3) != shard_of(KEY, 3)]
    assert others
    for key in others:
        assert (await cluster.step(cluster.replicas[1], key)).step == 2
