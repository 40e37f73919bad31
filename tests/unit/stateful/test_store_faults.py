"""The store fails: owners step on and states move; what must be in the store waits, or fails."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import Key, OutcomeUnknownError
from deployments.stateful.replica.leases import CLOSE_TIMEOUT_S, RESET_TIMEOUT_S
from tests.unit.stateful.authorities import now
from tests.unit.stateful.lineage import Outcome
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, World, settings, until

KEY = Key("run", "300839359")
# Of the two stores, one refuses at once, and one hangs for almost as long as the leader_lease.
HANGS = pytest.mark.parametrize(
    "hang_s", [0.0, 0.9 * FAST.leader_lease_s], ids=["refuses", "hangs"]
)


async def without_store(hang_s: float, **options: object) -> World:
    world = await World(settings=settings(**options)).start(2)
    for replica in world.replicas:
        await world.predict(replica, KEY)
    await asyncio.sleep(0.3)
    world.store.down, world.store.down_after_s = True, hang_s
    return world


@HANGS
@virtual_time
async def test_owners_step_on_and_states_move(hang_s):
    world = await without_store(hang_s)
    for n in range(100):
        asked = await world.predict(world.replicas[n // 10 % 2], KEY)
        assert asked.step == n + 3
        assert (asked.answered or 99) - asked.sent < 0.1
        await asyncio.sleep(0.05)
    assert [replica.engine.counts.sessions for replica in world.replicas] == [1, 1]
    new = await world.predict(world.replicas[0], Key("new run", "300839359"))
    assert new.step == 1
    world.history.check()


@HANGS
@virtual_time
async def test_a_reset_has_an_unknown_outcome_and_the_states_go_on(hang_s):
    world = await without_store(hang_s)
    before = now()
    with pytest.raises(OutcomeUnknownError):
        await world.replicas[0].engine.reset(KEY.run)
    assert now() - before == pytest.approx(RESET_TIMEOUT_S, abs=0.2)
    asked = await world.predict(world.replicas[1], KEY)
    assert asked.step == 3
    world.store.down = False
    await asyncio.sleep(1)
    assert (await world.reset(world.replicas[0], KEY.run)).done is not None
    assert (await world.predict(world.replicas[1], KEY)).step == 1
    world.history.check()


@HANGS
@virtual_time
async def test_a_new_replica_waits_for_the_store(hang_s):
    world = await without_store(hang_s)
    joining = asyncio.create_task(world.add_replica())
    await asyncio.sleep(3)
    assert not joining.done()
    world.store.down = False
    newcomer = await joining
    assert (await world.predict(newcomer, KEY)).step == 3
    world.history.check()


@HANGS
@virtual_time
async def test_a_member_that_has_lost_its_session_comes_back_without_the_store(hang_s):
    world = await without_store(hang_s)
    away, other = world.replicas
    away.pause()
    await asyncio.sleep(1)
    assert (await world.predict(other, KEY)).step == 3
    away.resume()
    assert (await world.predict(away, KEY)).step == 4
    world.history.check()


@virtual_time
async def test_a_new_life_waits_for_the_store_and_then_has_lost_nothing():
    world = await without_store(0.0)
    await world.kill_authority()
    _, answer = world.ask(world.replicas[0], KEY)
    await asyncio.sleep(0.2)
    assert not answer.done()
    world.store.down = False
    assert (await answer).step == 3
    world.history.check()


@virtual_time
async def test_in_durable_strict_mode_nothing_is_answered_before_its_copy_is_in_the_store():
    world = await without_store(0.0, durability="store")
    asked, answer = world.ask(world.replicas[1], KEY)
    await asyncio.sleep(0.2)
    assert not answer.done()
    world.store.down = False
    await until(lambda: asked.outcome is Outcome.ANSWERED)
    for replica in world.replicas:
        world.kill_replica(replica)
    await world.kill_authority()
    late = await world.add_replica()
    assert (await world.predict(late, KEY)).step == asked.step + 1
    world.history.check()


@virtual_time
async def test_closing_gives_everything_back_when_the_store_serves_again():
    world = await without_store(0.0)
    leaving, other = world.replicas
    await world.predict(leaving, KEY)
    closing = asyncio.create_task(leaving.engine.close())
    await asyncio.sleep(CLOSE_TIMEOUT_S / 2)
    assert not closing.done(), "what it has committed is not in the store"
    world.store.down = False
    await closing
    before = now()
    world.kill_replica(leaving)
    await world.kill_authority()
    assert (await world.predict(other, KEY)).step == 4
    assert now() - before < 1
    world.history.check()


@virtual_time
async def test_no_store_and_no_cluster_to_ask_stop_everything_until_either_is_back():
    world = await without_store(0.0)
    world.cluster_silent = True
    await asyncio.sleep(1)
    owner = world.replicas[1]
    assert not owner.engine.connected
    answer = world.ask(owner, KEY)[1]
    await asyncio.sleep(0.2)
    assert not answer.done()
    world.cluster_silent = False
    assert (await answer).step == 3
    world.history.check()
