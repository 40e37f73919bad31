"""Who may call the authority, in which session, and what a call of another one gets."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import (
    ClaimPart,
    Hello,
    Key,
    StaleSessionError,
    StateBatch,
    Version,
)
from tests.unit.stateful.authorities import (
    NumberingAuthority,
    batch,
    join,
    make_authority,
    restart,
)
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST
from tests.unit.stateful.virtual_time import virtual_time

KEY, OTHER = Key("run", "a"), Key("run", "b")


@virtual_time
async def test_a_session_is_over_with_its_lease_also_before_it_is_swept_out(monkeypatch):
    monkeypatch.setattr(NumberingAuthority, "sweep", lambda self: None)
    authority = await make_authority()
    session = await join(authority, "a")
    await authority.checkout(session, KEY)
    await asyncio.sleep(FAST.lease_s + FAST.lease_margin_s + 0.001)
    for call in (
        authority.listen(session),
        authority.commit(session, StateBatch(), [KEY]),
        authority.checkout(session, OTHER),
        authority.reset(session, KEY.run),
    ):
        with pytest.raises(StaleSessionError, match="is unknown or has ended"):
            await call


@virtual_time
async def test_nothing_is_done_for_a_session_before_its_claim_is_complete():
    authority = await make_authority()
    session = (await authority.open_session(Hello("a", 1))).session
    for call in (
        authority.listen(session),
        authority.commit(session, StateBatch(), []),
        authority.checkout(session, KEY),
        authority.reset(session, KEY.run),
        authority.close_session(session),
    ):
        with pytest.raises(StaleSessionError, match="has not claimed yet"):
            await call


@virtual_time
async def test_what_is_wanted_while_its_owner_claims_is_recalled_after_the_claim():
    authority = await make_authority()
    session, other = await join(authority, "a"), await join(authority, "b")
    version = (await authority.checkout(session, KEY)).version
    session = (await authority.open_session(Hello("a", 1))).session
    wanting = asyncio.create_task(authority.checkout(other, KEY))
    await asyncio.sleep(0.01)
    await authority.claim(session, ClaimPart(batch(KEY, version)))
    assert await asyncio.wait_for(authority.listen(session), 0.01) == [KEY]
    wanting.cancel()


@virtual_time
async def test_a_commit_of_what_was_stepped_under_an_earlier_grant_is_refused():
    authority = await make_authority()
    session = await join(authority, "a")
    before = (await authority.checkout(session, KEY)).version
    await authority.commit(session, batch(KEY, Version(before.epoch, 1)), [KEY])
    since = (await authority.checkout(session, KEY)).version
    assert since.epoch > before.epoch
    late = batch(KEY, Version(before.epoch, 9))
    assert await authority.commit(session, late, []) == [KEY]
    await authority.commit(session, StateBatch(), [KEY])
    assert (await authority.checkout(session, KEY)).version.step == 1


@virtual_time
async def test_a_member_that_no_life_has_heard_yet_stays_one_when_another_comes():
    store = MemoryStore()
    first = await make_authority(store=store)
    await first.checkout(await join(first, "silent"), KEY)
    first.stop()
    second = await restart(store)
    await second.open_session(Hello("newcomer", 1))
    assert set(second._leadership.writer.record.members) == {"silent", "newcomer"}


@virtual_time
async def test_a_seat_is_not_given_up_before_what_was_claimed_at_the_last_moment():
    store = MemoryStore()
    authority = await make_authority(store=store)
    session = await join(authority, "a")
    version = (await authority.checkout(session, OTHER)).version
    await authority.commit(session, batch(OTHER, version), [OTHER])
    store.latency_s = (0.05, 0.05)
    retiring = asyncio.create_task(authority.retire())
    await asyncio.sleep(0.02)  # the copies are on their way
    late = batch(KEY, Version(version.epoch, 7))
    session = (await authority.open_session(Hello("a", 1))).session
    await authority.claim(session, ClaimPart(late))
    assert await asyncio.wait_for(authority.listen(session), 0.2) == [KEY]
    await authority.commit(session, batch(KEY, Version(version.epoch, 8)), [KEY])
    await retiring
