"""What the engine guarantees under faults, as scenarios (see "Cost of each fault" in the protocol).

Random schedules look for lost steps in every combination of faults. These scenarios check how long
a fault delays responses, and what random schedules seldom meet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from deployments.stateful.layout import shard_of
from deployments.stateful.protocol import Key
from tests.unit.stateful.simulation.history import Outcome
from tests.unit.stateful.simulation.network import RAY, STORE
from tests.unit.stateful.simulation.replica import Replica
from tests.unit.stateful.simulation.scenario import KEY, Scenario, scenario, start, until
from tests.unit.stateful.simulation.times import (
    CLOSE_TIMEOUT_S,
    KEEP_RELEASED_S,
    OPTIONS,
    RESET_TIMEOUT_S,
)
from tests.unit.stateful.simulation.world import KEYS

COMMITTED_S = 0.02
WRITTEN_S = 2 * OPTIONS.snapshot_period_s
BROKEN_S = OPTIONS.lease_s + OPTIONS.lease_margin_s + 0.05  # by then an expired lease is broken
SOON_S = 0.06


@contextlib.contextmanager
def takes(world: Scenario, at_most_s: float, at_least_s: float = 0.0) -> Iterator[None]:
    began = world.loop.now
    yield
    assert at_least_s <= world.loop.now - began <= at_most_s


async def step_all(world: Scenario, replica: Replica, step: int) -> None:
    for key in KEYS:
        assert (await world.step(replica, key)).step == step


async def without_store(hangs: bool = False, **options: Any) -> Scenario:
    """Return a world whose store fails after two replicas have made a step each."""
    world = await start(2, **options)
    for replica in world.replicas:
        await world.step(replica)
    await asyncio.sleep(WRITTEN_S)
    if hangs:
        for name in (world.actor().node, "replica-2"):  # the next one
            world.faults.cut(name, STORE)
    else:
        world.faults.stop_store()
    return world


# Replicas


@scenario
async def test_a_state_moves_between_replicas_and_its_owner_steps_it_without_a_message() -> None:
    world = await start(2)
    for n in range(20):
        assert (await world.step(world.replicas[n % 2])).step == n + 1
    await asyncio.sleep(COMMITTED_S)
    world.network.latency_s = (0.1, 0.1)
    with takes(world, 0.11):  # from the client to the replica
        await world.step(world.replicas[1])


@pytest.mark.parametrize("noticed", [True, False])
@scenario
async def test_a_dead_replica_costs_a_lease_if_ray_does_not_notice(noticed: bool) -> None:
    world = await start(2)
    owner, other = world.replicas
    await world.step(owner)
    await asyncio.sleep(COMMITTED_S)
    world.faults.kill_replica(owner, 0.0 if noticed else None)
    with takes(world, SOON_S if noticed else BROKEN_S):
        assert (await world.step(other)).step == 2


@scenario
async def test_a_stalled_replica_never_answers_from_an_old_state() -> None:
    world = await start(2)
    stalled, other = world.replicas
    await world.step(stalled)
    await asyncio.sleep(COMMITTED_S)
    await world.step(stalled)
    world.faults.stall_replica(stalled)  # before the second commit
    with takes(world, BROKEN_S, OPTIONS.lease_s):
        assert (await world.step(other)).step == 2
    world.faults.heal()
    await asyncio.sleep(0.1)
    assert stalled.engine.counts.states_refused == 1
    assert (await world.step(stalled)).step == 3
    world.lost = {"not committed: the replica stalled": 1}


@scenario
async def test_a_short_stall_costs_nothing() -> None:
    world = await start(2)
    owner, other = world.replicas
    await world.step(owner)
    world.faults.stall_replica(owner, OPTIONS.lease_s / 3)
    with takes(world, OPTIONS.lease_s / 2):
        assert (await world.step(other)).step == 2
    assert owner.engine.counts.sessions == 1


@scenario
async def test_a_replica_that_closes_releases_its_states_at_once() -> None:
    world = await start(2)
    leaving, other = world.replicas
    for _ in range(3):
        await world.step(leaving)
    await world.close(leaving)
    with takes(world, 0.01):
        assert (await world.step(other)).step == 4


@pytest.mark.parametrize("back_after_s", [0.1, None])
@scenario
async def test_a_replica_that_closes_without_the_authority_waits_for_it_for_a_while(
    back_after_s: float | None,
) -> None:
    world = await start(2, durability="actor")
    leaving, staying = world.replicas
    for _ in range(5):
        await world.step(leaving)
    world.kill_actor(back_after_s or 100.0)
    with takes(world, CLOSE_TIMEOUT_S + 0.1, back_after_s or CLOSE_TIMEOUT_S):
        await world.close(leaving)
    if back_after_s is not None:
        assert (await world.step(staying)).step == 6


# The authority


@scenario
async def test_without_the_authority_owners_step_on_and_responses_wait_from_the_bound_on() -> None:
    world = await start()
    (owner,) = world.replicas
    await world.step(owner)
    await asyncio.sleep(COMMITTED_S)
    killed = world.loop.now
    world.kill_actor(down_s=0.1)
    requests = []
    while world.loop.now < killed + 0.1:
        requests.append(world.ask(owner, KEY))
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


@pytest.mark.parametrize("shards", [1, 3])
@scenario
async def test_a_reset_clears_every_state_of_its_run_and_no_other(shards: int) -> None:
    world = await start(2, shards=shards)
    for replica in world.replicas:
        for key in KEYS:
            await world.step(replica, key)
    await world.clear(world.replicas[0], "a")
    for key in KEYS:
        assert (await world.step(world.replicas[1], key)).step == (1 if key.run == "a" else 3)


@scenario
async def test_a_reset_waits_for_the_lease_of_a_stalled_owner() -> None:
    world = await start(2)
    stalled, other = world.replicas
    await world.step(stalled)
    world.faults.stall_replica(stalled)
    with takes(world, BROKEN_S, OPTIONS.lease_s):
        await world.clear(other)
    world.faults.heal()
    assert (await world.step(stalled)).step == 1


@scenario
async def test_what_was_released_before_a_reset_stays_void_for_as_long_as_it_is_claimed() -> None:
    world = await start(2, run_ttl_s=0.5)
    first, second = world.replicas
    for replica in (first, first, second):
        await world.step(replica)
    await world.clear(second)
    await asyncio.sleep(KEEP_RELEASED_S - 0.2)
    world.kill_actor()
    assert (await world.step(first)).step == 1


# The store


@pytest.mark.parametrize("hangs", [False, True])
@scenario
async def test_without_the_store_owners_step_on_and_states_move(hangs: bool) -> None:
    world = await without_store(hangs)
    for n in range(40):
        with takes(world, 0.05):
            assert (await world.step(world.replicas[n // 10 % 2])).step == n + 3
        await asyncio.sleep(0.05)
    assert (await world.step(world.replicas[0], Key("new run", "1"))).step == 1
    assert [replica.engine.counts.sessions for replica in world.replicas] == [1, 1]


@pytest.mark.parametrize("hangs", [False, True])
@scenario
async def test_without_the_store_a_member_comes_back_and_others_wait_for_it(hangs: bool) -> None:
    world = await without_store(hangs)
    away, other = world.replicas
    world.faults.cut_replica(away, for_s=1.0)
    await asyncio.sleep(0.5)
    assert (await world.step(other)).step == 3
    await asyncio.sleep(0.6)
    assert (await world.step(away)).step == 4
    new = world.add_replica()
    await asyncio.sleep(1)
    assert not new.ready
    world.faults.heal()
    await until(lambda: new.ready)
    assert (await world.step(new)).step == 5


@scenario
async def test_without_the_store_a_reset_has_an_unknown_outcome_and_states_go_on() -> None:
    world = await without_store()
    call = world.reset(world.replicas[0], KEY.run)
    await asyncio.sleep(RESET_TIMEOUT_S + 0.1)
    assert call.done is None
    assert (await world.step(world.replicas[1])).step == 3
    world.faults.heal()
    await world.clear(world.replicas[0])
    assert (await world.step(world.replicas[1])).step == 1


@scenario
async def test_a_new_term_waits_for_the_store_and_loses_nothing() -> None:
    world = await without_store()
    world.kill_actor()
    request = world.ask(world.replicas[0], KEY)
    await asyncio.sleep(OPTIONS.checkout_timeout_s / 2)
    assert request.outcome is Outcome.PENDING
    world.faults.heal()
    await until(lambda: request.outcome is Outcome.ANSWERED)
    assert request.step == 3


@scenario
async def test_with_durability_store_a_response_waits_for_the_store_and_survives_everything() -> (
    None
):
    world = await without_store(durability="store", snapshot_period_s=1000.0)
    request = world.ask(world.replicas[1], KEY)
    await asyncio.sleep(OPTIONS.commit_timeout_s / 2)
    assert request.outcome is Outcome.PENDING
    world.faults.heal()
    await until(lambda: request.outcome is Outcome.ANSWERED)
    for replica in world.replicas:
        world.faults.kill_replica(replica)
    world.kill_actor()
    (late,) = await world.add_replicas()
    assert (await world.step(late)).step == request.step + 1


@scenario
async def test_a_closing_replica_waits_until_the_store_has_its_states() -> None:
    world = await without_store()
    leaving, other = world.replicas
    await world.step(leaving)
    leaving.close()
    await asyncio.sleep(CLOSE_TIMEOUT_S / 2)
    assert not leaving.closed
    world.faults.heal()
    await until(lambda: leaving.closed)
    world.kill_actor()
    with takes(world, 0.5):
        assert (await world.step(other)).step == 4


@scenario
async def test_without_the_store_and_ray_everything_stops_until_either_is_back() -> None:
    world = await without_store()
    world.faults.cut(world.actor().node, RAY, for_s=1.0)
    await asyncio.sleep(0.8)
    owner = world.replicas[1]
    assert not owner.owns(KEY)
    request = world.ask(owner, KEY)
    await asyncio.sleep(0.15)
    assert request.outcome is Outcome.PENDING
    await until(lambda: request.outcome is Outcome.ANSWERED)
    assert request.step == 3


# Shards and layouts


@scenario
async def test_a_dead_authority_stops_only_the_states_of_its_shard() -> None:
    world = await start(2, shards=3)
    await step_all(world, world.replicas[0], 1)
    await asyncio.sleep(COMMITTED_S)
    for number, actor in enumerate(world.present_actors):
        expected = sum(shard_of(key, 3) == number for key in KEYS)
        assert actor.authority.n_states == expected
    counts = world.replicas[0].engine.counts
    assert counts.checkouts == counts.states_committed == len(KEYS)
    assert (counts.sessions, 0 < counts.commit_lag_s < 0.02) == (3, True)
    world.kill_actor(down_s=100.0)
    await asyncio.sleep(0.5)
    assert not world.replicas[1].process.run(lambda: world.replicas[1].engine.connected)
    others = [key for key in KEYS if shard_of(key, 3) != shard_of(KEY, 3)]
    assert others
    for key in others:
        assert (await world.step(world.replicas[1], key)).step == 2


# Receipts
