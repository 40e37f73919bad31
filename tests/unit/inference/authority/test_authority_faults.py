"""A killed authority: the replicas' memories and the snapshots make it whole again."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.inference.authority.authority import HiddenStateAuthority
from deployments.inference.protocol import (
    Claim,
    Key,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
    Version,
)
from tests.unit.inference.lineage import Outcome
from tests.unit.inference.virtual_time import virtual_time
from tests.unit.inference.world import FAST, World, gather, settings

KEY = Key("run", "300839359")
OTHER = Key("run", "265580972")


def now() -> float:
    return asyncio.get_running_loop().time()


def batch(key: Key, version: Version, fill: float = 1.0) -> StateBatch:
    return StateBatch([key], [version], np.full((1, 128), fill, np.float32))


@virtual_time
async def test_an_owner_goes_on_without_noticing():
    world = await World().start()
    replica = world.replicas[0]
    await world.predict(replica, KEY)
    down = asyncio.create_task(world.kill_authority(down_s=0.1))
    for n in range(2, 30):
        before = now()
        assert (await world.predict(replica, KEY)).step == n
        assert now() == before
        await asyncio.sleep(0.005)
    await down
    assert replica.leases.counts.sessions == 2
    world.history.check()


@pytest.mark.parametrize("down_s", [0.01, 0.1, 0.5, 3.0])
@virtual_time
async def test_under_load_no_answered_step_is_lost(down_s):
    world = await World().start(3)
    jobs: list[asyncio.Task[object]] = []
    for n in range(400):
        if n == 150:
            jobs.append(asyncio.create_task(world.kill_authority(down_s=down_s)))
        jobs.append(asyncio.create_task(world.predict(world.replicas[n % 3], (KEY, OTHER)[n % 2])))
        await asyncio.sleep(0.0007)
    await gather(*jobs)
    for replica in world.replicas:
        for key in (KEY, OTHER):
            assert (await world.predict(replica, key)).outcome is Outcome.ANSWERED
    world.history.check()


@pytest.mark.parametrize("offset", range(12))
@virtual_time
async def test_a_kill_in_the_middle_of_a_handover_loses_nothing(offset):
    world = await World(seed=offset).start(2)
    first, second = world.replicas
    for _ in range(3):
        await world.predict(first, KEY)
    handover = asyncio.create_task(world.predict(second, KEY))
    await asyncio.sleep(offset * 0.00015)
    assert not handover.done(), "the handover was over before the kill"
    await world.kill_authority()
    await handover
    await asyncio.sleep(0.5)
    assert (await world.predict(first, KEY)).step == 5
    world.history.check()


@virtual_time
async def test_nothing_is_granted_before_earlier_owners_could_claim():
    world = await World().start(2)
    owner, other = world.replicas
    await world.predict(owner, KEY)
    await world.kill_authority()
    restarted = now()
    asked = asyncio.create_task(world.predict(other, OTHER))
    await asyncio.sleep(FAST.lease_s)
    assert not asked.done()
    await asked
    assert now() - restarted <= FAST.lease_s + FAST.lease_margin_s + 0.1
    assert (await world.predict(owner, KEY)).step == 2


@virtual_time
async def test_a_first_start_grants_at_once():
    world = await World().start()
    await world.predict(world.replicas[0], KEY)
    assert now() < 0.02


@virtual_time
async def test_a_fresh_actor_learns_from_claims_that_there_was_one_before():
    world = await World().start(2)
    owner, other = world.replicas
    await world.predict(owner, KEY)
    shard = world.shards[0]
    shard.stop()
    shard.start(restarted=False)
    assert (await world.predict(owner, KEY)).step == 2
    await asyncio.sleep(0.1)
    assert (await world.predict(other, KEY)).step == 3
    world.history.check()


@virtual_time
async def test_sessions_of_an_earlier_life_are_never_taken_for_this_ones():
    first = HiddenStateAuthority(FAST, clock=now)
    second = HiddenStateAuthority(FAST, clock=now)
    stale = (await first.open_session("a", Claim())).session
    fresh = (await second.open_session("b", Claim())).session
    grant = await second.checkout(fresh, KEY)
    with pytest.raises(StaleSessionError):
        await second.listen(stale)
    with pytest.raises(StaleSessionError):
        await second.commit(stale, batch(KEY, Version(grant.version.epoch, 9)), [KEY])
    assert await second.commit(fresh, batch(KEY, Version(grant.version.epoch, 1)), []) == []


@virtual_time
async def test_a_grant_is_later_than_every_one_of_an_earlier_life():
    first = HiddenStateAuthority(FAST, clock=now)
    session = (await first.open_session("a", Claim())).session
    epochs = [(await first.checkout(session, Key("run", str(n)))).version.epoch for n in range(50)]
    second = HiddenStateAuthority(FAST, clock=now)
    session = (await second.open_session("a", Claim())).session
    assert (await second.checkout(session, KEY)).version.epoch > max(epochs)


@virtual_time
async def test_a_replica_that_slept_through_the_restart_cannot_bring_its_state_back():
    world = await World().start(2)
    sleeper, other = world.replicas
    await world.predict(sleeper, KEY)
    await asyncio.sleep(0.02)
    assert (await world.predict(other, KEY)).step == 2
    assert (await world.predict(sleeper, KEY)).step == 3
    await asyncio.sleep(0.02)
    sleeper.pause()
    assert (await world.predict(other, KEY)).step == 4
    await world.kill_authority()
    assert (await world.predict(other, KEY)).step == 5
    await asyncio.sleep(1)
    sleeper.resume()
    assert (await world.predict(sleeper, KEY)).step == 6
    world.history.check()


@virtual_time
async def test_a_reset_outlives_the_authority_that_made_it():
    world = await World().start(2)
    first, second = world.replicas
    for _ in range(3):
        await world.predict(first, KEY)
    await world.predict(second, KEY)  # now the first has a copy that it has given back
    await world.reset(second, KEY.run)
    await world.kill_authority()
    assert (await world.predict(first, KEY)).step == 1
    world.history.check()


@virtual_time
async def test_of_two_claims_to_one_state_the_later_grant_wins_in_either_order():
    earlier, later = Version(7, 100), Version(8, 3)
    for order in ((earlier, later), (later, earlier)):
        authority = HiddenStateAuthority(FAST, restarted=True, clock=now)
        sessions = {}
        for version in order:
            claim = Claim(1, version is later, batch(KEY, version, version.step))
            sessions[version] = await authority.open_session(f"replica-{version.epoch}", claim)
        assert sessions[later].kept == [KEY]
        assert sessions[earlier].kept == []
        epoch = Version(later.epoch, later.step + 1)
        assert await authority.commit(sessions[later].session, batch(KEY, epoch), []) == []


@virtual_time
async def test_what_was_given_back_is_never_kept():
    authority = HiddenStateAuthority(FAST, restarted=True, clock=now)
    claim = Claim(1, lease_valid=True, given_back=batch(KEY, Version(7, 100), 0.5))
    opened = await authority.open_session("a", claim)
    assert opened.kept == []
    grant = await authority.checkout((await authority.open_session("b", Claim())).session, KEY)
    assert grant.version.step == 100
    assert grant.hidden is not None
    assert grant.hidden[0] == 0.5


@virtual_time
async def test_claims_are_taken_over_beyond_the_cap_and_new_states_refused():
    authority = HiddenStateAuthority(settings(max_states=1), restarted=True, clock=now)
    for n in range(3):
        claim = Claim(1, True, batch(Key("run", str(n)), Version(n + 1, 1)))
        opened = await authority.open_session(f"replica-{n}", claim)
        assert opened.kept == [Key("run", str(n))]
    await asyncio.sleep(0.2)
    session = (await authority.open_session("new", Claim())).session
    with pytest.raises(TooManyStatesError):
        await authority.checkout(session, KEY)


@virtual_time
async def test_a_grant_that_crosses_a_claim_on_the_way_is_not_stepped():
    """The claim does not name the key, so the authority has given it to somebody else."""
    world = await World(seed=3).start(2)
    for n in range(60):
        world.network.lost_request = 0.2
        replica = world.replicas[n % 2]
        job = asyncio.create_task(world.predict(replica, KEY))
        await asyncio.sleep(0.002)
        world.network.lost_request = 0.0
        await job
        await world.predict(world.replicas[1 - n % 2], KEY)
    world.history.check()


@virtual_time
async def test_two_quick_kills_in_a_row_are_survived():
    world = await World().start(2)
    first, second = world.replicas
    await world.predict(first, KEY)
    await world.predict(second, KEY)
    for _ in range(3):
        await world.kill_authority(down_s=0.4)
        await asyncio.sleep(0.1)
    assert (await world.predict(first, KEY)).step == 3
    world.history.check()


@virtual_time
async def test_a_cancelled_checkout_leaves_nothing_owned():
    authority = HiddenStateAuthority(FAST, clock=now)
    a, b, c = [(await authority.open_session(name, Claim())).session for name in "abc"]
    held = await authority.checkout(a, KEY)
    waiting = asyncio.create_task(authority.checkout(b, KEY))
    await asyncio.sleep(0)
    await authority.commit(a, StateBatch(), [KEY])
    waiting.cancel()  # it has been given the state, but has not heard of it
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(0.01):
        assert (await authority.checkout(c, KEY)).version.epoch > held.version.epoch


@virtual_time
async def test_a_cancelled_reset_leaves_nothing_owned():
    authority = HiddenStateAuthority(FAST, clock=now)
    a, b = [(await authority.open_session(name, Claim())).session for name in "ab"]
    await authority.checkout(a, KEY)
    await authority.checkout(b, OTHER)
    waiting = asyncio.create_task(authority.reset(KEY.run))
    await asyncio.sleep(0)
    await authority.commit(a, StateBatch(), [KEY])
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(0.01):
        await authority.checkout(b, KEY)
