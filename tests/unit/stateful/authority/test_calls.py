from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.table import REMEMBERED_CALLS, CallFilter
from deployments.stateful.protocol import Key, StaleSessionError, StateBatch, Version
from tests.unit.stateful.authorities import batch, join, make_authority
from tests.unit.stateful.options import FAST
from tests.unit.stateful.virtual_time import virtual_time

KEY = Key("run", "a")


def test_a_call_is_taken_once_however_long_ago_it_was():
    calls = CallFilter()
    for number in range(1, 3 * REMEMBERED_CALLS):
        calls.accept(number)
        for before in {1, max(1, number - REMEMBERED_CALLS), max(1, number - 1), number}:
            with pytest.raises(StaleSessionError):
                calls.accept(before)


def test_calls_may_overtake_each_other():
    calls = CallFilter()
    calls.accept(REMEMBERED_CALLS)
    for number in range(1, REMEMBERED_CALLS):
        calls.accept(number)
        with pytest.raises(StaleSessionError):
            calls.accept(number)


def test_what_is_remembered_is_bounded():
    calls = CallFilter()
    for number in range(1, 20 * REMEMBERED_CALLS, 2):
        calls.accept(number)
    calls.accept(10**18)
    assert len(calls._seen) <= 2 * REMEMBERED_CALLS


@virtual_time
async def test_a_request_for_a_state_that_comes_twice_takes_it_once():
    authority = await make_authority(FAST)
    session = await join(authority, "a")
    await authority.checkout(session, KEY, 1)
    await authority.commit(session, StateBatch(), [KEY], 2)
    with pytest.raises(StaleSessionError):
        await authority.checkout(session, KEY, 1)
    other = await join(authority, "b")
    await asyncio.wait_for(authority.checkout(other, KEY), 0.01)


@virtual_time
async def test_a_commit_that_comes_twice_takes_nothing_from_its_sender():
    authority = await make_authority(FAST)
    session, other = await join(authority, "a"), await join(authority, "b")
    epoch = (await authority.checkout(session, KEY, 1)).version.epoch
    first = batch(KEY, Version(epoch, 1))
    await authority.commit(session, first, [KEY], 2)
    epoch = (await authority.checkout(session, KEY, 3)).version.epoch
    with pytest.raises(StaleSessionError):
        await authority.commit(session, first, [KEY], 2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(authority.checkout(other, KEY), 0.01)
    assert await authority.commit(session, batch(KEY, Version(epoch, 2)), [], 4) == []


@virtual_time
async def test_a_reset_that_comes_twice_clears_nothing_that_was_stepped_since():
    authority = await make_authority(FAST)
    session = await join(authority, "a")
    await authority.reset(session, KEY.run, 1)
    epoch = (await authority.checkout(session, KEY, 2)).version.epoch
    await authority.commit(session, batch(KEY, Version(epoch, 1)), [KEY], 3)
    with pytest.raises(StaleSessionError):
        await authority.reset(session, KEY.run, 1)
    assert (await authority.checkout(session, KEY, 4)).version.step == 1
