"""A killed authority: the replicas' memories and the store make it whole again."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import (
    Claimed,
    ClaimPart,
    Hello,
    Key,
    Receipt,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
    Version,
)
from tests.unit.stateful.authorities import (
    NumberingAuthority,
    batch,
    join,
    make_authority,
    now,
    restart,
    value_of,
)
from tests.unit.stateful.lineage import Outcome
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, World, gather, settings, until

KEY = Key("run", "300839359")
OTHER = Key("run", "265580972")


RECONNECTED_S = 0.1  # by then a replica has noticed that there is an authority again


async def claim(
    authority: NumberingAuthority, replica: str, part: ClaimPart
) -> tuple[int, Claimed]:
    opened = await authority.open_session(Hello(replica, 1))
    return opened.session, await authority.claim(opened.session, part)


@virtual_time
async def test_an_owner_steps_on_and_its_answers_wait_from_the_loss_bound_on():
    world = await World().start()
    replica = world.replicas[0]
    await world.predict(replica, KEY)
    await asyncio.sleep(0.05)
    killed, down_s = now(), 0.1
    down = asyncio.create_task(world.kill_authority(down_s=down_s))
    asked = []
    while now() < killed + down_s:
        asked.append(world.ask(replica, KEY))
        await asyncio.sleep(0.004)
    await gather(*(answer for _, answer in asked), down)
    assert [each.step for each, _ in asked] == list(range(2, len(asked) + 2))
    for each, _ in asked:
        at_once = each.sent <= killed + FAST.loss_bound_s
        assert (each.answered == each.sent) is at_once
        assert at_once or killed + down_s < (each.answered or 0) < killed + down_s + RECONNECTED_S
    assert replica.engine.counts.sessions == 2
    world.history.check()


@virtual_time
async def test_an_owner_that_dies_with_the_authority_away_costs_no_more_than_the_loss_bound():
    world = await World(settings=settings(snapshot_period_s=0.005)).start(2)
    first, second = world.replicas
    await world.predict(first, KEY)
    await asyncio.sleep(0.05)
    shard, killed = world.shards[0], now()
    shard.stop()
    asked = []
    for _ in range(20):
        asked.append(world.ask(first, KEY)[0])
        await asyncio.sleep(0.004)
    world.kill_replica(first)
    shard.start()
    answered = [each for each in asked if each.answered is not None]
    assert answered
    assert all((each.answered or 0) <= killed + FAST.loss_bound_s for each in answered)
    assert (await world.predict(second, KEY)).step == 2
    world.history.check(lambda each: each in answered)


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
async def test_nothing_is_granted_before_a_silent_member_is_at_the_end_of_its_lease():
    world = await World().start(2)
    owner, other = world.replicas
    await world.predict(owner, KEY)
    await asyncio.sleep(0.02)
    owner.pause()
    await world.kill_authority()
    restarted = now()
    asked = asyncio.create_task(world.predict(other, OTHER))
    await asyncio.sleep(FAST.lease_s)
    assert not asked.done()
    await asked
    assert now() - restarted <= FAST.lease_s + FAST.lease_margin_s + 0.15
    owner.resume()
    assert (await world.predict(owner, KEY)).step == 2
    world.history.check()


@virtual_time
async def test_grants_go_on_as_soon_as_every_member_has_claimed():
    world = await World(settings=settings(lease_s=5.0)).start(3)
    for replica in world.replicas:
        await world.predict(replica, KEY)
    await world.kill_authority()
    restarted = now()
    assert (await world.predict(world.replicas[0], KEY)).step == 4
    assert now() - restarted < 0.2
    world.history.check()


@virtual_time
async def test_a_member_that_is_known_to_be_dead_is_not_waited_for():
    world = await World(settings=settings(lease_s=5.0)).start(2)
    dead, other = world.replicas
    await world.predict(dead, KEY)
    await asyncio.sleep(0.2)
    world.kill_replica(dead)
    await world.kill_authority()
    restarted = now()
    assert (await world.predict(other, KEY)).step == 2
    assert now() - restarted < 0.3
    world.history.check()


@virtual_time
async def test_a_first_start_grants_at_once():
    world = await World().start()
    await world.predict(world.replicas[0], KEY)
    assert now() < 0.02


@virtual_time
async def test_a_fresh_actor_learns_from_the_store_that_there_was_one_before():
    store = MemoryStore()
    first = await make_authority(store=store)
    owner = await join(first, "owner")
    granted = await first.checkout(owner, KEY)
    second = await restart(store)
    joining = asyncio.create_task(join(second, "newcomer"))
    await asyncio.sleep(FAST.lease_s / 2)
    assert not joining.done(), "the owner has not claimed yet"
    stepped = batch(KEY, Version(granted.version.epoch, 7))
    mine, claimed = await claim(second, "owner", ClaimPart(stepped))
    assert claimed == Claimed()
    waiting = asyncio.create_task(second.checkout(await joining, KEY))
    await until(lambda: KEY in second._ownership.sessions[mine].recalls)
    assert await second.commit(mine, StateBatch(), [KEY]) == []
    assert (await waiting).version.step == 7


@virtual_time
async def test_sessions_of_an_earlier_life_are_never_taken_for_this_ones():
    store = MemoryStore()
    stale = await join(await make_authority(store=store), "a")
    second = await restart(store)
    await join(second, "a")
    fresh = await join(second, "b")
    grant = await second.checkout(fresh, KEY)
    with pytest.raises(StaleSessionError):
        await second.listen(stale)
    with pytest.raises(StaleSessionError):
        await second.commit(stale, batch(KEY, Version(grant.version.epoch, 9)), [KEY])
    assert await second.commit(fresh, batch(KEY, Version(grant.version.epoch, 1)), []) == []


@virtual_time
async def test_a_grant_is_later_than_every_one_of_an_earlier_life():
    store = MemoryStore()
    first = await make_authority(store=store)
    session = await join(first, "a")
    epochs = [(await first.checkout(session, Key("run", str(n)))).version.epoch for n in range(50)]
    second = await restart(store)
    session = await join(second, "a")
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


@pytest.mark.parametrize("order", [("early", "late"), ("late", "early")], ids="-".join)
@virtual_time
async def test_of_two_claims_to_one_state_the_later_grant_wins_in_either_order(order):
    """The lease of the first one had run out, and it does not know of the second grant."""
    store = MemoryStore()
    first = await make_authority(store=store)
    for replica in order:
        await join(first, replica)
    second = await restart(store)
    versions = {"early": Version(7, 100), "late": Version(8, 3)}
    claiming = {}
    for replica in order:
        part = ClaimPart(owned=batch(KEY, versions[replica], versions[replica].step))
        claiming[replica] = asyncio.create_task(claim(second, replica, part))
        await asyncio.sleep(0.01)
    assert not claiming[order[0]].done() or claiming[order[1]].done(), "it waits for the other"
    assert (await claiming["early"])[1] == Claimed(lost=[KEY])
    session, claimed = await claiming["late"]
    assert claimed == Claimed()
    assert await second.commit(session, batch(KEY, Version(8, 4)), []) == []


@virtual_time
async def test_what_was_given_back_is_never_kept():
    authority = await make_authority()
    part = ClaimPart(released=batch(KEY, Version(7, 100), 0.5))
    _, claimed = await claim(authority, "a", part)
    assert claimed == Claimed()
    grant = await authority.checkout(await join(authority, "b"), KEY)
    assert grant.version.step == 100
    assert value_of(grant.state) == 0.5


@virtual_time
async def test_claims_are_taken_over_beyond_the_cap_and_new_states_refused():
    authority = await make_authority(settings(max_states=1))
    for n in range(3):
        part = ClaimPart(batch(Key("run", str(n)), Version(n + 1, 1)))
        _, claimed = await claim(authority, f"replica-{n}", part)
        assert claimed.lost == []
    session = await join(authority, "new")
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
    authority = await make_authority()
    a, b, c = [await join(authority, name) for name in "abc"]
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
    authority = await make_authority()
    a, b = [await join(authority, name) for name in "ab"]
    await authority.checkout(a, KEY)
    await authority.checkout(b, OTHER)
    waiting = asyncio.create_task(authority.reset(b, KEY.run))
    await asyncio.sleep(0)
    await authority.commit(a, StateBatch(), [KEY])
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(0.01):
        await authority.checkout(b, KEY)


@virtual_time
async def test_receipts_of_a_commit_that_is_repeated_are_kept_once():
    authority = await make_authority()
    session = await join(authority, "a")
    epoch = (await authority.checkout(session, KEY)).version.epoch
    receipts = [Receipt(f"key-{step}", "print", step, (0, 0.5)) for step in (1, 2, 3)]
    await authority.commit(session, batch(KEY, Version(epoch, 2), 1.0, *receipts[:2]), [])
    await authority.commit(session, batch(KEY, Version(epoch, 3), 1.0, *receipts), [KEY])
    grant = await authority.checkout(session, KEY)
    assert grant.receipts == tuple(receipts)


@virtual_time
async def test_listening_ends_with_its_session_so_that_the_next_one_hears_of_its_recalls():
    authority = await make_authority(settings(lease_s=60.0))
    listening = asyncio.create_task(authority.listen(await join(authority, "a")))
    await asyncio.sleep(0.1)
    await join(authority, "a")
    with pytest.raises(StaleSessionError):
        async with asyncio.timeout(0.1):
            await listening
