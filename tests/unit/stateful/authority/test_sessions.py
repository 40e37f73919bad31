"""Sessions: who may call the authority, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from deployments.stateful.protocol import (
    PROTOCOL,
    ClaimPart,
    DismissedError,
    Hello,
    Key,
    StaleSessionError,
    StateBatch,
    Version,
)
from tests.support.states import DictStore
from tests.unit.stateful.authorities import (
    OPTIONS,
    NumberingAuthority,
    batch,
    join,
    make_authority,
    next_term,
    now,
    options,
)
from tests.unit.stateful.simulation.scenario import simulated

KEY, OTHER = Key("run", "a"), Key("run", "b")


def calls_of(authority: NumberingAuthority, session: int) -> list[Coroutine[Any, Any, object]]:
    return [
        authority.listen(session),
        authority.commit(session, StateBatch(), [KEY]),
        authority.checkout(session, OTHER),
        authority.reset(session, KEY.run),
        authority.close_session(session),
    ]


@pytest.mark.parametrize("swept", [False, True])
@simulated
async def test_a_session_ends_with_its_lease(swept, monkeypatch):
    if not swept:
        monkeypatch.setattr(NumberingAuthority, "sweep", lambda self: None)
    authority = await make_authority()
    session, other = await join(authority, "a"), await join(authority, "b")
    await authority.checkout(session, KEY)
    await asyncio.sleep(0.1)
    renewed = now()
    await authority.listen(session)
    await asyncio.sleep(renewed + OPTIONS.lease_s + OPTIONS.lease_margin_s - now() - 0.001)
    assert await authority.listen(session) == []
    await asyncio.sleep(OPTIONS.lease_s + OPTIONS.lease_margin_s + 0.05)
    for call in calls_of(authority, session):
        with pytest.raises(StaleSessionError, match="is unknown or has ended"):
            await call
    assert (session in authority._ownership.sessions) is not swept
    assert (other in authority._ownership.sessions) is not swept


@simulated
async def test_a_session_that_never_was_is_refused():
    authority = await make_authority()
    await authority.start()
    for call in (*calls_of(authority, 5), authority.claim(5, ClaimPart())):
        with pytest.raises(StaleSessionError):
            await call


@simulated
async def test_before_its_claim_a_session_may_not_do_anything_else_and_claims_once():
    authority = await make_authority()
    session = (await authority.open_session(Hello("a", 1))).session
    for call in calls_of(authority, session):
        with pytest.raises(StaleSessionError, match="has not claimed yet"):
            await call
    await authority.claim(session, ClaimPart())
    with pytest.raises(StaleSessionError, match="has claimed already"):
        await authority.claim(session, ClaimPart())


@simulated
async def test_a_session_of_an_earlier_term_is_not_one_of_this_term():
    store = DictStore()
    stale = await join(await make_authority(store=store), "a")
    second = await next_term(store)
    await join(second, "a")
    fresh = await join(second, "b")
    epoch = (await second.checkout(fresh, KEY)).version.epoch
    with pytest.raises(StaleSessionError):
        await second.commit(stale, batch(KEY, Version(epoch, 9)), [KEY])
    assert await second.commit(fresh, batch(KEY, Version(epoch, 1)), []) == []


@simulated
async def test_a_poll_ends_with_its_session_so_that_the_next_one_gets_its_recalls():
    authority = await make_authority(options(lease_s=60.0))
    listening = asyncio.create_task(authority.listen(await join(authority, "a")))
    await asyncio.sleep(0.1)
    await join(authority, "a")
    with pytest.raises(StaleSessionError):
        async with asyncio.timeout(0.1):
            await listening


@simulated
async def test_a_closed_session_frees_what_it_owned_and_ends():
    authority = await make_authority()
    session = await join(authority, "a")
    await authority.checkout(session, KEY)
    await authority.close_session(session)
    await authority.checkout(await join(authority, "b"), KEY)
    with pytest.raises(StaleSessionError):
        await authority.listen(session)


@simulated
async def test_a_call_that_arrives_again_is_refused():
    authority = await make_authority()
    session, other = await join(authority, "a"), await join(authority, "b")
    epoch = (await authority.checkout(session, KEY, 1)).version.epoch
    stepped = batch(KEY, Version(epoch, 1))
    await authority.commit(session, stepped, [KEY], 2)
    await authority.reset(session, KEY.run, 3)
    epoch = (await authority.checkout(session, KEY, 4)).version.epoch
    for repeated in (
        authority.checkout(session, KEY, 1),
        authority.commit(session, stepped, [KEY], 2),
        authority.reset(session, KEY.run, 3),
    ):
        with pytest.raises(StaleSessionError, match="has arrived before"):
            await repeated
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(authority.checkout(other, KEY), 0.01)
    assert await authority.commit(session, batch(KEY, Version(epoch, 2)), [], 5) == []


# Members


@simulated
async def test_a_replica_of_another_protocol_is_dismissed_with_both_versions():
    authority = await make_authority()
    with pytest.raises(DismissedError, match=rf"version {PROTOCOL + 1} .* version {PROTOCOL}\."):
        await authority.open_session(Hello("a", 1, protocol=PROTOCOL + 1))


@simulated
async def test_a_replica_of_another_layout_is_dismissed():
    authority = await make_authority()
    with pytest.raises(DismissedError, match="another layout"):
        await authority.open_session(Hello("a", generation=2))


@simulated
async def test_a_new_member_replaces_those_without_a_session_but_none_that_may_still_claim():
    store = DictStore()
    first = await make_authority(store=store)
    for replica in ("gone", "silent"):
        session = await join(first, replica)
        if replica == "gone":
            await first.close_session(session)
    assert set(first._leadership.members) == {"silent"}
    second = await next_term(store)
    await second.open_session(Hello("newcomer", 1))
    assert set(second._leadership.members) == {"silent", "newcomer"}
