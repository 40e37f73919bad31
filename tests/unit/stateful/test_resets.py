"""Resets: zeros for all that comes later, whoever owns the states and whatever else goes on."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.authority import SWEEP_PERIOD_S
from deployments.stateful.protocol import ClaimPart, Key, StateBatch, Version
from tests.unit.stateful.authorities import batch, join, make_authority
from tests.unit.stateful.lineage import Asked, Outcome, ResetCall
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, World, gather, settings

KEYS = [Key("run", "300839359"), Key("run", "265580972"), Key("run", "8541180897")]
OTHER_RUN = Key("other", "300839359")


@virtual_time
async def test_every_junction_of_the_run_starts_from_zeros_and_no_other_run():
    world = await World().start(2)
    for key in [*KEYS, OTHER_RUN]:
        for replica in world.replicas:
            await world.predict(replica, key)
    await world.reset(world.replicas[0], "run")
    for key in KEYS:
        assert (await world.predict(world.replicas[1], key)).step == 1
    assert (await world.predict(world.replicas[1], OTHER_RUN)).step == 3
    world.history.check()


@virtual_time
async def test_a_reset_of_an_unknown_run_is_fine():
    world = await World().start()
    assert (await world.reset(world.replicas[0], "never used")).done is not None


@pytest.mark.parametrize("seed", range(8))
@virtual_time
async def test_resets_race_with_predictions_on_all_replicas(seed):
    world = await World(seed=seed).start(3)
    jobs: list[asyncio.Task[object]] = []
    for n in range(300):
        replica = world.random.choice(world.replicas)
        if n % 20 == 0:
            jobs.append(asyncio.create_task(world.reset(replica, "run")))
        jobs.append(asyncio.create_task(world.predict(replica, world.random.choice(KEYS))))
        await asyncio.sleep(world.random.choice([0, 0.0002, 0.002]))
    await gather(*jobs)
    assert all(reset.done is not None for reset in world.history.resets)
    assert all(asked.outcome is Outcome.ANSWERED for asked in world.history.asked)
    for reset in world.history.resets:
        assert any(meets(reset, asked) for asked in world.history.asked), "no race"
    world.history.check()


def meets(reset: ResetCall, asked: Asked) -> bool:
    """Return whether the prediction was under way while the reset was."""
    assert reset.done is not None
    assert asked.answered is not None
    return asked.sent < reset.done and reset.sent < asked.answered


@virtual_time
async def test_two_concurrent_resets_do_not_block_each_other():
    world = await World().start(3)
    for n, key in enumerate(KEYS):
        await world.predict(world.replicas[n], key)
    before = asyncio.get_running_loop().time()
    await gather(*(world.reset(replica, "run") for replica in world.replicas for _ in range(5)))
    assert asyncio.get_running_loop().time() - before < 0.1
    for key in KEYS:
        assert (await world.predict(world.replicas[0], key)).step == 1


@virtual_time
async def test_a_reset_waits_for_the_lease_of_a_silent_owner_and_then_clears():
    world = await World().start(2)
    silent, other = world.replicas
    for _ in range(4):
        await world.predict(silent, KEYS[0])
    silent.pause()
    before = asyncio.get_running_loop().time()
    await world.reset(other, "run")
    waited = asyncio.get_running_loop().time() - before
    assert waited <= FAST.lease_s + FAST.lease_margin_s + SWEEP_PERIOD_S + 0.02
    silent.resume()
    assert (await world.predict(silent, KEYS[0])).step == 1
    world.history.check()


@virtual_time
async def test_a_reset_that_meets_a_restart_of_the_authority_succeeds():
    world = await World().start(2)
    for _ in range(3):
        await world.predict(world.replicas[0], KEYS[0])
    reset = asyncio.create_task(world.reset(world.replicas[1], "run"))
    await world.kill_authority()
    assert (await reset).done is not None
    assert (await world.predict(world.replicas[0], KEYS[0])).step == 1
    world.history.check()


@virtual_time
async def test_what_is_waiting_when_a_reset_arrives_is_answered():
    world = await World(settings=settings()).start(3)
    await world.predict(world.replicas[0], KEYS[0])
    jobs = [world.predict(replica, KEYS[0]) for replica in world.replicas for _ in range(10)]
    await gather(world.reset(world.replicas[1], "run"), *jobs)
    assert all(asked.outcome is Outcome.ANSWERED for asked in world.history.asked)
    world.history.check()


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
@virtual_time
async def test_a_junction_first_used_while_its_run_is_reset_outlives_a_restart_of_the_authority(
    strict,
):
    world = await World(settings=settings(durability="actor" if strict else "memory")).start()
    (replica,) = world.replicas
    known, new = KEYS[:2]
    await world.predict(replica, known)
    await asyncio.sleep(0.05)
    reset = asyncio.create_task(world.reset(replica, "run"))  # waits until `known` is given back
    await asyncio.sleep(0.0005)
    await world.predict(replica, new)
    assert not reset.done(), "the reset was to wait meanwhile"
    await reset
    before = [await world.predict(replica, new) for _ in range(20)]
    await asyncio.sleep(1)
    await world.kill_authority()
    await asyncio.sleep(0.5)
    assert before[-1].step is not None
    assert (await world.predict(replica, new)).step == before[-1].step + 1
    world.history.check()


@pytest.mark.parametrize("turns", range(6))
@virtual_time
async def test_a_copy_from_before_a_reset_is_not_accepted_however_soon_it_is_claimed(turns):
    authority = await make_authority()
    first, second = [await join(authority, name) for name in ("first", "second")]
    await authority.checkout(second, KEYS[1])
    mine = await authority.checkout(first, KEYS[0])  # the latest epoch of all before the reset's
    old = batch(KEYS[0], Version(mine.version.epoch, 10))
    reset = asyncio.create_task(authority.reset(first, "run"))
    await asyncio.sleep(0)
    await authority.commit(first, old, [KEYS[0]])
    again = asyncio.create_task(authority.checkout(first, KEYS[0]))
    await asyncio.sleep(0.001)
    await authority.commit(second, StateBatch(), [KEYS[1]])  # the last one that the reset needs
    for _ in range(turns):
        await asyncio.sleep(0)
    session = await join(authority, "first", ClaimPart(released=old))
    await asyncio.gather(reset, again, return_exceptions=True)
    assert (await authority.checkout(session, KEYS[0])).version.step == 0
