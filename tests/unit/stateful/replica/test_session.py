"""A replica's session by itself: how long its lease lasts, and who keeps it from a new one."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.stateful.protocol import (
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    Key,
    OpenedSession,
    StaleSessionError,
    Version,
)
from deployments.stateful.replica.claims import Claims
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts
from deployments.stateful.replica.session import ATTEMPTS_PER_LEASE, CALL_TIMEOUT_S, Session
from tests.unit.stateful.replica.test_leases import Scripted
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import until


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


class LosingClaims(Scripted):
    """Hears of the first claims nothing, and of one that comes again only after another answer."""

    n_lost = 1

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        self.claims.append(part)
        if len(self.claims) <= self.n_lost:
            await asyncio.Event().wait()
        return Claimed()


@virtual_time
async def test_a_claim_that_is_lost_is_sent_again_while_its_lease_lasts():
    authority = LosingClaims()
    session = session_with(authority)
    await asyncio.wait_for(session.replace(None), 0.5)
    assert session.valid
    assert (len(authority.hellos), len(authority.claims)) == (1, 2)


@virtual_time
async def test_a_claim_is_not_sent_for_ever_where_nobody_answers():
    authority = LosingClaims()
    authority.n_lost = 99
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session_with(authority).replace(None), CALL_TIMEOUT_S - 0.1)
    assert len(authority.claims) == ATTEMPTS_PER_LEASE


class RefusingTheSecond(Scripted):
    """Settles the first claim while the second one is on its way, and answers both at once."""

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        self.claims.append(part)
        second = len(self.claims) == 2
        await self.open_gate.wait()
        if second:
            raise StaleSessionError("the session has claimed already")
        return Claimed()


@virtual_time
async def test_the_answer_to_a_claim_counts_and_not_the_refusal_of_its_repetition():
    authority = RefusingTheSecond()
    authority.open_gate.clear()
    session = session_with(authority)
    opening = asyncio.create_task(session.replace(None))
    await until(lambda: len(authority.claims) == 2)
    authority.open_gate.set()
    await opening
    assert len(authority.hellos) == 1


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
    held.request(key)
    held.grant(key, Grant(Version(1, 0), None), np.zeros(128, np.float32))
    await asyncio.sleep(pause_s)  # a second of the lease, and then some
    await session.replace(session.number)
    assert len(authority.claims[-1].owned.keys) == claimed
