"""Bounded memory: idle runs expire, the cap refuses clearly, nothing alive is evicted."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from deployments.stateful.protocol import Key, StateBatch, TooManyStatesError, Version
from deployments.stateful.replica.claims import KEEP_S
from tests.unit.stateful.authorities import batch, join, make_authority
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import World, settings, until

JUNCTION = "300839359"


@virtual_time
async def test_an_idle_run_is_forgotten_and_a_used_one_is_not():
    world = await World(settings=settings(run_ttl_s=1.0)).start(2)
    used, idle = Key("used", JUNCTION), Key("idle", JUNCTION)
    await world.predict(world.replicas[0], idle)
    for n in range(1, 20):
        assert (await world.predict(world.replicas[n % 2], used)).step == n
        await asyncio.sleep(0.2)
    assert world.shards[0].authority.n_states == 1
    assert world.replicas[0].leases.owned(idle) is None
    assert (await world.predict(world.replicas[0], idle)).step == 1


@virtual_time
async def test_one_used_junction_keeps_the_whole_run():
    world = await World(settings=settings(run_ttl_s=1.0)).start()
    quiet, busy = Key("run", JUNCTION), Key("run", "265580972")
    await world.predict(world.replicas[0], quiet)
    for _ in range(20):
        await world.predict(world.replicas[0], busy)
        await asyncio.sleep(0.2)
    assert (await world.predict(world.replicas[0], quiet)).step == 2


@virtual_time
async def test_a_run_used_while_it_expires_is_kept():
    slow = settings(run_ttl_s=1.0, commit_delay_s=0.3, loss_bound_s=0.5)
    world = await World(settings=slow).start()
    key, replica = Key("run", JUNCTION), world.replicas[0]
    await world.predict(replica, key)
    await until(lambda: replica.leases.counts.commits == 1)  # which is the use of its run
    await asyncio.sleep(0.95)
    assert (await world.predict(replica, key)).step == 2  # would be committed after the sweep
    await until(lambda: replica.leases.counts.commits == 2)
    assert replica.leases.counts.recalls == 1, "it was to expire meanwhile"
    assert (await world.predict(replica, key)).step == 3
    world.history.check()


@virtual_time
async def test_a_run_that_somebody_waits_for_is_not_forgotten():
    authority = await make_authority(settings(run_ttl_s=1.0))
    key = Key("run", JUNCTION)
    owner, other = await join(authority, "owner"), await join(authority, "other")
    granted = await authority.checkout(owner, key)
    await authority.commit(owner, batch(key, Version(granted.version.epoch, 5)), [])
    waiting = None
    for n in range(15):
        await asyncio.gather(authority.listen(owner), authority.listen(other))
        await asyncio.sleep(0.1)
        if n == 7:
            waiting = asyncio.create_task(authority.checkout(other, key))
    await authority.commit(owner, StateBatch(), [key])
    assert waiting is not None
    assert (await waiting).version.step == 5


@virtual_time
async def test_a_thousand_runs_expire_together_without_a_stall():
    world = await World(settings=settings(run_ttl_s=1.0)).start()
    replica = world.replicas[0]
    answers = [world.ask(replica, Key(f"run-{n}", JUNCTION))[1] for n in range(1000)]
    await asyncio.wait(answers)
    assert world.shards[0].authority.n_states == 1000
    await asyncio.sleep(1)
    await until(lambda: world.shards[0].authority.n_states == 0)
    assert replica.leases.counts.sessions == 1, "the lease ran out meanwhile"


@virtual_time
async def test_the_cap_refuses_new_states_clearly_and_serves_the_old_ones(caplog):
    world = await World(settings=settings(max_states=3)).start(2)
    keys = [Key(f"run-{n}", JUNCTION) for n in range(3)]
    for key in keys:
        await world.predict(world.replicas[0], key)
    _, answer = world.ask(world.replicas[1], Key("one too many", JUNCTION))
    with pytest.raises(TooManyStatesError, match="3 hidden states are kept already"):
        await answer
    assert caplog.records[-1].about == {"run": "one too many", "junction": JUNCTION}
    for key in keys:
        assert (await world.predict(world.replicas[1], key)).step == 2
    await world.reset(world.replicas[0], "run-0")
    assert (await world.predict(world.replicas[1], Key("one too many", JUNCTION))).step == 1
    world.history.check()


@pytest.mark.parametrize(
    ("ttl_s", "idle_s", "retry_after_s"), [(100, 30, 70), (3600, 0, 300), (1.5, 1.2, 1)]
)
@virtual_time
async def test_a_refusal_says_when_the_run_may_expire_that_is_idle_for_longest(
    ttl_s: float, idle_s: float, retry_after_s: int
):
    authority = await make_authority(settings(max_states=2, run_ttl_s=ttl_s))
    session = await join(authority, "replica")
    await authority.checkout(session, Key("old", JUNCTION))
    until = asyncio.get_running_loop().time() + idle_s
    while asyncio.get_running_loop().time() < until:
        await authority.listen(session)
    await authority.checkout(session, Key("young", JUNCTION))
    with pytest.raises(TooManyStatesError) as refused:
        await authority.checkout(session, Key("new", JUNCTION))
    assert abs(refused.value.retry_after_s - retry_after_s) <= 1
    crossed = pickle.loads(pickle.dumps(refused.value))
    assert str(crossed) == str(refused.value)


@virtual_time
async def test_new_bounds_hold_at_once_and_lease_times_do_not_change():
    world = await World(settings=settings(max_states=1)).start()
    authority = world.shards[0].authority
    await world.predict(world.replicas[0], Key("a", JUNCTION))
    authority.configure(settings(max_states=2, lease_s=99.0))
    assert (await world.predict(world.replicas[0], Key("b", JUNCTION))).step == 1
    late = await world.add_replica()
    assert late.shards[0]._session._lease_until < 10


@virtual_time
async def test_resets_and_handovers_are_not_remembered_for_ever():
    world = await World().start(2)
    replica = world.replicas[0]
    for n in range(50):
        await world.predict(world.replicas[n % 2], Key(f"run-{n % 10}", JUNCTION))
        await world.reset(replica, f"run-{n % 10}")
    await asyncio.sleep(KEEP_S + 1)
    assert all(not shard._claims._recent.copies() for r in world.replicas for shard in r.shards)
    assert world.shards[0].authority.n_states == 0
