"""Ownership: one owner for each state, a queue of those that wait, and recalls."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from deployments.stateful.authority import ownership
from deployments.stateful.protocol import (
    ClaimPart,
    Hello,
    Key,
    StaleSessionError,
    StateBatch,
    TooManyStatesError,
    Version,
)
from tests.unit.stateful.authorities import (
    OPTIONS,
    FakeCluster,
    batch,
    join,
    keep,
    make_authority,
    now,
    options,
)
from tests.unit.stateful.simulation.scenario import simulated

KEY, OTHER = Key("run", "300839359"), Key("run", "265580972")


@simulated
async def test_only_its_owner_commits_to_a_state():
    authority = await make_authority()
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    epoch = (await authority.checkout(owner, KEY)).version.epoch
    forged = batch(KEY, Version(2**62, 99))
    assert await authority.commit(other, forged, [KEY]) == [KEY]
    assert await authority.commit(owner, batch(KEY, Version(epoch, 1)), []) == []


@simulated
async def test_a_commit_under_an_earlier_grant_is_refused():
    authority = await make_authority()
    session = await join(authority, "a")
    before = (await authority.checkout(session, KEY)).version
    await authority.commit(session, batch(KEY, Version(before.epoch, 1)), [KEY])
    assert (await authority.checkout(session, KEY)).version.epoch > before.epoch
    late = batch(KEY, Version(before.epoch, 9))
    assert await authority.commit(session, late, [KEY]) == [KEY]
    assert (await authority.checkout(session, KEY)).version.step == 1


@simulated
async def test_an_owner_does_not_check_its_state_out_again():
    authority = await make_authority()
    session = await join(authority, "a")
    await authority.checkout(session, KEY)
    with pytest.raises(StaleSessionError, match="already owns"):
        await authority.checkout(session, KEY)


@simulated
async def test_those_that_wait_are_served_in_turn_and_each_owner_is_recalled():
    authority = await make_authority()
    sessions = [await join(authority, name) for name in "abc"]
    await authority.checkout(sessions[0], KEY)
    waiting = []
    for session in sessions[1:]:
        waiting.append(asyncio.create_task(authority.checkout(session, KEY)))
        await asyncio.sleep(0)
    for n, session in enumerate(sessions[:2]):
        assert await authority.listen(session) == [KEY]
        assert await authority.listen(session) == [KEY], "it may not have received the first one"
        assert [each.done() for each in waiting] == [n > 0, False]
        await authority.commit(session, StateBatch(), [KEY])
        await asyncio.sleep(0)
    assert [(await each).version.step for each in waiting] == [0, 0]
    assert await authority.listen(sessions[2]) == []


@simulated
async def test_a_cancelled_checkout_leaves_its_place_and_what_it_was_granted():
    authority = await make_authority()
    a, b, c = [await join(authority, name) for name in "abc"]
    await authority.checkout(a, KEY)
    waiting = [asyncio.create_task(authority.checkout(session, KEY)) for session in (b, c, b)]
    await asyncio.sleep(0)
    waiting[2].cancel()
    await asyncio.wait(waiting[2:])
    await authority.commit(a, StateBatch(), [KEY])
    waiting[0].cancel()  # it has been granted the state, and did not run since
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    async with asyncio.timeout(0.01):
        await waiting[1]
    assert not authority._table.obtain(KEY).wanted


@simulated
async def test_a_cancelled_checkout_does_not_take_the_state_from_its_next_owner():
    authority = await make_authority()
    a, b, c = [await join(authority, name) for name in "abc"]
    await authority.checkout(a, KEY)
    waiting = [asyncio.create_task(authority.checkout(session, KEY)) for session in (b, c)]
    await asyncio.sleep(0)
    for session in (a, b):  # the first end grants the state to b, and the second one to c
        authority._ownership.end_session(authority._ownership.sessions[session])
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    granted = await waiting[1]
    stepped = batch(KEY, Version(granted.version.epoch, 1))
    assert await authority.commit(c, stepped, []) == []


@simulated
async def test_a_cancelled_reset_leaves_the_queues_of_all_states_that_it_waits_for():
    authority = await make_authority()
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    for key in (KEY, OTHER):
        await authority.checkout(owner, key)
    reset = asyncio.create_task(authority.reset(other, KEY.run))
    await asyncio.sleep(0.001)
    reset.cancel()
    await asyncio.wait([reset])
    await authority.commit(owner, StateBatch(), [KEY, OTHER])
    async with asyncio.timeout(0.01):
        for key in (KEY, OTHER):
            await authority.checkout(other, key)


@simulated
async def test_a_checkout_ends_with_its_session():
    authority = await make_authority(options(lease_s=5.0))
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    await authority.checkout(owner, KEY)
    waiting = asyncio.create_task(authority.checkout(other, KEY))
    await asyncio.sleep(0.1)
    await join(authority, "other")
    with pytest.raises(StaleSessionError):
        async with asyncio.timeout(0.01):
            await waiting


@pytest.mark.parametrize("status", ["dead", "alive", "unknown"])
@simulated
async def test_the_lease_of_an_owner_is_broken_at_once_only_if_it_is_dead(status):
    cluster = FakeCluster()
    authority = await make_authority(cluster=cluster)
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    await authority.checkout(owner, KEY)
    if status == "dead":
        cluster.dead = {"owner"}
    elif status == "unknown":
        cast(Any, cluster).is_alive = None  # calling it fails
    began, listening = now(), keep(authority, other)
    await authority.checkout(other, KEY)
    listening.cancel()
    if status == "dead":
        assert now() - began < 2 * ownership.PROBE_AFTER_S
    else:
        assert OPTIONS.lease_s < now() - began < OPTIONS.lease_s + OPTIONS.lease_margin_s + 0.05


@simulated
async def test_an_owner_that_dies_while_others_wait_is_noticed_soon():
    cluster = FakeCluster()
    authority = await make_authority(cluster=cluster)
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    await authority.checkout(owner, KEY)
    waiting = asyncio.create_task(authority.checkout(other, KEY))
    await asyncio.sleep(0.01)
    cluster.dead = {"owner"}
    async with asyncio.timeout(0.03):
        await waiting


@simulated
async def test_an_owner_is_not_probed_after_those_that_wait_have_left():
    class CountingCluster(FakeCluster):
        probes = 0

        async def is_alive(self, replica: str) -> bool:
            self.probes += 1
            return await super().is_alive(replica)

    cluster = CountingCluster()
    authority = await make_authority(cluster=cluster)
    owner, other = [await join(authority, name) for name in ("owner", "other")]
    listening = keep(authority, owner)
    await authority.checkout(owner, KEY)
    waiting = asyncio.create_task(authority.checkout(other, KEY))
    await asyncio.sleep(0.05)
    waiting.cancel()
    probes = cluster.probes
    assert probes > 1
    await asyncio.sleep(2 * OPTIONS.lease_s)
    assert cluster.probes <= probes + 1
    listening.cancel()


@simulated
async def test_what_is_wanted_while_its_owner_claims_is_recalled_after_the_claim():
    authority = await make_authority()
    session, other = await join(authority, "a"), await join(authority, "b")
    version = (await authority.checkout(session, KEY)).version
    session = (await authority.open_session(Hello("a", 1))).session
    waiting = asyncio.create_task(authority.checkout(other, KEY))
    await asyncio.sleep(0.01)
    await authority.claim(session, ClaimPart(batch(KEY, version)))
    assert await asyncio.wait_for(authority.listen(session), 0.01) == [KEY]
    waiting.cancel()


@simulated
async def test_claims_are_accepted_beyond_the_limit_and_new_states_refused():
    authority = await make_authority(options(max_states=1))
    for n in range(3):
        states = batch(Key("run", str(n)), Version(n, 1))
        await join(authority, f"replica-{n}", ClaimPart(released=states))
    session = await join(authority, "new")
    with pytest.raises(TooManyStatesError):
        await authority.checkout(session, KEY)
    await authority.reset(session, "run")
    await authority.checkout(session, KEY)
