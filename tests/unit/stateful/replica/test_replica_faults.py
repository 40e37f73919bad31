"""Killed and paused replicas: who may go on, when, and from which state."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.authority import SWEEP_PERIOD_S
from deployments.stateful.protocol import (
    ClaimPart,
    Key,
    StaleSessionError,
    StateBatch,
    Version,
)
from deployments.stateful.replica.leases import CLOSE_TIMEOUT_S
from tests.unit.stateful.authorities import batch, join
from tests.unit.stateful.lineage import Outcome
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, Network, Wire, World, gather, settings, until

KEY = Key("run", "300839359")
COMMITTED_S = 0.02


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual_time
async def test_two_replicas_hand_a_state_back_and_forth():
    world = await World().start(2)
    for n in range(50):
        asked = await world.predict(world.replicas[n % 2], KEY)
        assert asked.step == n + 1
    world.history.check()


@virtual_time
async def test_three_replicas_under_load_lose_nothing():
    world = await World().start(3)
    keys = [KEY, Key("run", "265580972"), Key("other", "300839359")]
    await gather(*(world.predict(world.replicas[n % 3], keys[n % 2]) for n in range(300)))
    assert all(asked.outcome is Outcome.ANSWERED for asked in world.history.asked)
    world.history.check()


@virtual_time
async def test_a_steady_owner_asks_nobody():
    world = await World().start()
    await world.predict(world.replicas[0], KEY)
    world.network.latency_s = (1.0, 1.0)
    before = now()
    await world.predict(world.replicas[0], KEY)
    assert now() == before


@virtual_time
async def test_the_lease_of_a_killed_replica_runs_out():
    world = await World().start(2)
    await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(COMMITTED_S)
    world.kill_replica(world.replicas[0], noticed_after_s=None)
    killed = now()
    asked = await world.predict(world.replicas[1], KEY)
    assert asked.step == 2
    assert now() - killed <= FAST.lease_s + FAST.lease_margin_s + SWEEP_PERIOD_S + 0.02
    world.history.check()


@virtual_time
async def test_the_lease_of_a_replica_known_to_be_dead_is_broken_at_once():
    world = await World().start(2)
    await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(COMMITTED_S)
    world.kill_replica(world.replicas[0], noticed_after_s=0.0)
    killed = now()
    asked = await world.predict(world.replicas[1], KEY)
    assert asked.step == 2
    assert now() - killed < 0.05
    world.history.check()


@virtual_time
async def test_a_failing_liveness_check_leaves_the_lease_to_run_out():
    world = await World().start(2)

    async def broken(replica: str) -> bool:
        raise ConnectionError

    life = world.shards[0].life
    assert life is not None
    life.is_alive = broken  # type: ignore[method-assign]
    for _ in range(2):
        await world.predict(world.replicas[0], KEY)
        await world.predict(world.replicas[1], KEY)
    world.kill_replica(world.replicas[1], noticed_after_s=None)
    assert (await world.predict(world.replicas[0], KEY)).outcome is Outcome.ANSWERED


@virtual_time
async def test_a_paused_replica_never_answers_from_a_stale_state():
    world = await World().start(2)
    paused, other = world.replicas
    await world.predict(paused, KEY)
    await asyncio.sleep(COMMITTED_S)
    paused.pause()
    taken_over = await world.predict(other, KEY)
    assert taken_over.step == 2
    for _ in range(3):
        await world.predict(other, KEY)
    paused.resume()
    asked = await world.predict(paused, KEY)
    assert asked.step == 6
    world.history.check()


@virtual_time
async def test_what_a_paused_replica_had_not_committed_is_void():
    world = await World().start(2)
    paused, other = world.replicas
    await world.predict(paused, KEY)
    await asyncio.sleep(COMMITTED_S)
    lost = await world.predict(paused, KEY)
    paused.pause()
    assert lost.step == 2
    assert (await world.predict(other, KEY)).step == 2
    paused.resume()
    await asyncio.sleep(0.2)
    assert paused.engine.counts.states_refused == 1
    assert (await world.predict(paused, KEY)).step == 3
    world.history.check(lambda asked: asked is lost)


@virtual_time
async def test_a_short_pause_costs_nothing():
    world = await World().start(2)
    paused = world.replicas[0]
    await world.predict(paused, KEY)
    paused.pause()
    await asyncio.sleep(FAST.lease_s / 3)
    paused.resume()
    assert (await world.predict(paused, KEY)).step == 2
    assert paused.engine.counts.sessions == 1


@virtual_time
async def test_a_replica_that_was_cut_off_stops_before_another_takes_over():
    world = await World().start(2)
    cut, other = world.replicas
    await world.predict(cut, KEY)
    await asyncio.sleep(COMMITTED_S)
    state = cut.engine.leases_of(KEY).owned(KEY)
    assert state is not None
    cut.pause()  # its messages stop, its event loop does not
    takeover = asyncio.create_task(world.predict(other, KEY))
    while not takeover.done():
        owns = cut.engine.leases_of(KEY).owned(KEY) is not None
        await asyncio.sleep(0.001)
        assert not (owns and takeover.done())
    assert cut.engine.leases_of(KEY).owned(KEY) is None
    assert not cut.engine.connected


@virtual_time
async def test_a_replica_that_closes_gives_everything_back_at_once():
    world = await World().start(2)
    leaving, other = world.replicas
    for _ in range(3):
        await world.predict(leaving, KEY)
    await leaving.batcher.close()
    await leaving.engine.close()
    closed = now()
    assert (await world.predict(other, KEY)).step == 4
    assert now() - closed < 0.01
    world.history.check()


@virtual_time
async def test_an_authority_that_is_away_is_two_lines_in_the_log_of_a_replica(caplog):
    world = await World().start(1)
    await world.predict(world.replicas[0], KEY)
    await world.kill_authority(down_s=5.0)
    await world.predict(world.replicas[0], KEY)
    began, ended = (
        told
        for told in caplog.messages
        if told.startswith(("The state actor does not", "The state actor serves"))
    )
    assert began.startswith("The state actor does not serve: ")
    assert ended.startswith("The state actor serves again after 5.")


@virtual_time
async def test_closing_without_an_authority_ends_within_its_deadline():
    world = await World().start()
    await world.predict(world.replicas[0], KEY)
    world.shards[0].stop()
    before = now()
    await world.replicas[0].engine.close()
    assert now() - before < CLOSE_TIMEOUT_S + 0.1


@virtual_time
async def test_nobody_can_commit_to_a_state_that_he_does_not_own():
    world = await World().start(1)
    await world.predict(world.replicas[0], KEY)
    await asyncio.sleep(COMMITTED_S)
    authority = world.shards[0].authority
    forged = batch(KEY, Version(2**62, 99))
    intruder = await join(authority, "intruder", ClaimPart(owned=forged))
    assert await authority.commit(intruder, forged, [KEY], 1) == [KEY]
    assert (await world.predict(world.replicas[0], KEY)).step == 2
    world.history.check()


@virtual_time
async def test_a_session_that_never_was_is_refused():
    world = await World().start(1)
    authority = world.shards[0].authority
    for call in (
        authority.claim(5, ClaimPart()),
        authority.listen(5),
        authority.checkout(5, KEY, 1),
        authority.commit(5, StateBatch(), [], 2),
        authority.close_session(5),
    ):
        with pytest.raises(StaleSessionError):
            await call


@virtual_time
async def test_a_reply_lost_with_the_session_in_it_does_not_block_the_states():
    world = await World(network=Network()).start(2)
    owner, other = world.replicas
    await world.predict(owner, KEY)
    await asyncio.sleep(COMMITTED_S)
    world.network.lost_reply = 0.5
    await asyncio.sleep(1.0)
    world.network.lost_reply = 0.0
    before = now()
    assert (await world.predict(other, KEY)).step == 2
    assert now() - before < FAST.lease_s
    world.history.check()


@virtual_time
async def test_a_call_that_hangs_is_given_up():
    hang = asyncio.Event()

    class HangingWire(Wire):
        async def checkout(self, session, key, call):
            if not hang.is_set():
                hang.set()
                await asyncio.Event().wait()
            return await super().checkout(session, key, call)

    world = await World(settings=settings()).start(1)
    shard = world.replicas[0].shards[0]
    wire = HangingWire(world, world.shards[0], world.replicas[0])
    shard._authority = shard._session._authority = wire
    first = await world.predict(world.replicas[0], KEY)
    assert first.outcome is Outcome.FAILED
    await asyncio.sleep(10)
    assert (await world.predict(world.replicas[0], KEY)).step == 1


@virtual_time
async def test_an_owner_is_recalled_by_each_that_waits_in_turn():
    world = await World().start(3)
    await gather(*(world.predict(replica, KEY) for replica in world.replicas for _ in range(3)))
    await until(lambda: all(replica.engine.connected for replica in world.replicas))
    owners = [replica for replica in world.replicas if replica.engine.leases_of(KEY).owned(KEY)]
    assert len(owners) <= 1
    world.history.check()


@virtual_time
async def test_closing_while_the_authority_restarts_loses_no_step():
    world = await World(settings=settings(durability="actor")).start(2)
    leaving, staying = world.replicas
    for _ in range(5):
        await world.predict(leaving, KEY)
    restart = asyncio.create_task(world.kill_authority(down_s=0.3))
    await asyncio.sleep(0.2)
    await leaving.batcher.close()
    await leaving.engine.close()
    await restart
    assert (await world.predict(staying, KEY)).step == 6
    world.history.check()


@virtual_time
async def test_a_replica_that_slept_until_its_runs_were_forgotten_owns_nothing():
    world = await World(settings=settings(run_ttl_s=0.5)).start(2)
    sleeper, other = world.replicas
    await world.predict(sleeper, KEY)
    await world.kill_authority()
    await until(lambda: sleeper.engine.counts.sessions == 2)  # KEY was kept by a claim
    sleeper.pause()
    await asyncio.sleep(2)
    assert (await world.predict(other, KEY)).step == 1
    sleeper.resume()
    await until(lambda: sleeper.engine.connected)
    assert sleeper.engine.leases_of(KEY).owned(KEY) is None
    assert (await world.predict(sleeper, KEY)).step == 2
