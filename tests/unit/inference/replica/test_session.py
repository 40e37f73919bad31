"""A replica's session by itself: how long its lease lasts, and who keeps it from a new one."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.inference.protocol import Grant, Hello, Key, OpenedSession, Version
from deployments.inference.replica.claims import Claims
from deployments.inference.replica.held_states import HeldStates, LeaseCounts
from deployments.inference.replica.session import Session
from tests.unit.inference.replica.test_leases import Scripted
from tests.unit.inference.virtual_time import virtual_time


def session_with(authority: Scripted, held: HeldStates | None = None, **times: float) -> Session:
    now = asyncio.get_running_loop().time
    claims = Claims(held or HeldStates(), LeaseCounts(), now)
    return Session(authority, "replica", 1, claims, now, **times)


@virtual_time
async def test_an_answer_to_an_earlier_session_does_not_prolong_the_lease():
    session = session_with(Scripted())
    await session.replace(None)
    earlier = session.number
    assert earlier is not None
    await session.replace(earlier)
    await asyncio.sleep(0.9)
    session.renew(earlier, asyncio.get_running_loop().time())
    assert session.valid
    await asyncio.sleep(0.11)
    assert not session.valid


class HangingOnce(Scripted):
    async def open_session(self, hello: Hello) -> OpenedSession:
        opened = await super().open_session(hello)
        if opened.session == 1:
            await asyncio.Event().wait()
        return opened


@virtual_time
async def test_a_process_that_hangs_is_asked_for_no_longer_than_the_time_to_open():
    session = session_with(HangingOnce(), open_timeout_s=0.5)
    await asyncio.wait_for(session.replace(None), 0.6)
    assert session.valid


@virtual_time
async def test_the_lease_counts_from_when_the_claim_was_sent():
    authority = Scripted()
    session = session_with(authority)
    authority.open_gate.clear()
    opening = asyncio.create_task(session.replace(None))
    await asyncio.sleep(0.4)
    authority.open_gate.set()
    await opening
    await asyncio.sleep(0.59)
    assert session.valid
    await asyncio.sleep(0.02)
    assert not session.valid


@pytest.mark.parametrize(("pause_s", "claimed"), [(5.9, 1), (6.1, 0)])
@virtual_time
async def test_what_could_not_be_used_for_the_time_of_a_run_is_not_claimed(pause_s, claimed):
    authority, held = Scripted(), HeldStates()
    session = session_with(authority, held, forget_after_s=5.0)
    await session.replace(None)
    key = Key("run", "300839359")
    held.ask(key)
    held.grant(key, Grant(Version(1, 0), None), np.zeros(128, np.float32))
    await asyncio.sleep(pause_s)  # a second of the lease, and then some
    await session.replace(session.number)
    assert len(authority.claims[-1].owned.keys) == claimed
