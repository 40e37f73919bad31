"""A replica's session: how long its lease lasts, and how a new one is opened."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import (
    Claimed,
    ClaimPart,
    DismissedError,
    Grant,
    Hello,
    Key,
    OpenedSession,
    SessionAbandonedError,
    StaleSessionError,
    Version,
)
from deployments.stateful.replica.claims import Claims
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts
from deployments.stateful.replica.session import ATTEMPTS_PER_LEASE, Session
from tests.unit.stateful.authorities import now
from tests.unit.stateful.replica.scripted import LEASE_S, ScriptedAuthority, initial_state
from tests.unit.stateful.simulation.scenario import simulated, until
from tests.unit.stateful.simulation.times import CALL_TIMEOUT_S


def session_with(
    authority: ScriptedAuthority, held: HeldStates | None = None, **times: float
) -> Session:
    claims = Claims(held or HeldStates(), LeaseCounts(), now)
    return Session(authority, "replica", 1, claims, now, **times)


@simulated
async def test_the_lease_counts_from_when_the_claim_was_sent():
    authority = ScriptedAuthority()
    session = session_with(authority)
    authority.claims_arrive.clear()
    opening = asyncio.create_task(session.replace(None))
    await asyncio.sleep(0.3)
    authority.claims_arrive.set()
    await opening
    await asyncio.sleep(LEASE_S - 0.31)
    assert session.valid
    await asyncio.sleep(0.02)
    assert not session.valid


@simulated
async def test_a_response_to_an_earlier_session_does_not_renew_the_lease():
    session = session_with(ScriptedAuthority())
    await session.replace(None)
    earlier = session.number
    assert earlier is not None
    await session.replace(earlier)
    await asyncio.sleep(LEASE_S - 0.1)
    session.renew(earlier, now())
    assert session.valid
    await asyncio.sleep(0.11)
    assert not session.valid


@simulated
async def test_a_late_response_does_not_shorten_the_lease():
    session = session_with(ScriptedAuthority())
    await session.replace(None)
    await asyncio.sleep(LEASE_S / 2)
    assert session.number is not None
    session.renew(session.number, now())
    session.renew(session.number, now() - LEASE_S)
    await asyncio.sleep(LEASE_S / 2 + 0.01)
    assert session.valid


class HangsOnce(ScriptedAuthority):
    async def open_session(self, hello: Hello) -> OpenedSession:
        opened = await super().open_session(hello)
        if opened.session == 1:
            await asyncio.Event().wait()
        return opened


@simulated
async def test_a_process_that_hangs_is_tried_again_after_the_time_to_open():
    session = session_with(HangsOnce(), open_timeout_s=0.3)
    await asyncio.wait_for(session.replace(None), 0.35)
    assert session.valid


@simulated
async def test_a_dismissed_replica_opens_no_further_session():
    authority = ScriptedAuthority(dismisses=DismissedError("another layout"))
    session = session_with(authority)
    for error in (DismissedError, SessionAbandonedError):
        with pytest.raises(error):
            await session.replace(None)
    assert len(authority.hellos) == 1


class LosesClaims(ScriptedAuthority):
    n_lost = 1

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        self.claims.append(part)
        if len(self.claims) <= self.n_lost:
            await asyncio.Event().wait()
        return Claimed()


@simulated
async def test_a_lost_claim_is_sent_again_while_its_lease_lasts():
    authority = LosesClaims()
    session = session_with(authority)
    await asyncio.wait_for(session.replace(None), LEASE_S / 2)
    assert session.valid
    assert (len(authority.hellos), len(authority.claims)) == (1, 2)


@simulated
async def test_a_claim_is_sent_a_few_times_in_one_session(monkeypatch):
    authority = LosesClaims()
    authority.n_lost = 99
    monkeypatch.setattr("deployments.stateful.replica.session.CALL_TIMEOUT_S", 3 * LEASE_S)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session_with(authority).replace(None), 3 * LEASE_S - 0.1)
    assert len(authority.claims) == ATTEMPTS_PER_LEASE


class RefusesTheSecond(ScriptedAuthority):
    """Settles a claim while its repetition is on the way, and responds to both at once."""

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        self.claims.append(part)
        second = len(self.claims) == 2
        await self.claims_arrive.wait()
        if second:
            raise StaleSessionError("the session has claimed already")
        return Claimed()


@simulated
async def test_the_refusal_of_a_repeated_claim_does_not_count():
    authority = RefusesTheSecond()
    authority.claims_arrive.clear()
    opening = asyncio.create_task(session_with(authority).replace(None))
    await until(lambda: len(authority.claims) == 2)
    authority.claims_arrive.set()
    await opening
    assert len(authority.hellos) == 1


@simulated
async def test_a_claim_without_a_response_fails_the_session():
    authority = LosesClaims()
    authority.n_lost = 2
    session = session_with(authority)
    await asyncio.wait_for(session.replace(None), CALL_TIMEOUT_S + 0.1)
    assert len(authority.hellos) == 2


@pytest.mark.parametrize(("pause_s", "expired"), [(5.9, False), (6.1, True)])
@simulated
async def test_states_that_were_unusable_for_the_time_to_live_are_claimed_as_expired(
    pause_s, expired
):
    authority, held = ScriptedAuthority(), HeldStates()
    session = session_with(authority, held, forget_after_s=5.0)
    await session.replace(None)
    key = Key("run", "300839359")
    held.request(key)
    held.grant(key, Grant(Version(1, 0), None), initial_state(key))
    await asyncio.sleep(pause_s)  # a second of the lease, and then some
    await session.replace(session.number)
    assert authority.claims[-1].owned.keys == [key]
    assert authority.claims[-1].expired is expired
