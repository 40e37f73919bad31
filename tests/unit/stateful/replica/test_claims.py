"""What a replica claims when it opens a session."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.stateful.protocol import (
    Claimed,
    Grant,
    Key,
    OutcomeUnknownError,
    Version,
)
from deployments.stateful.replica import claims as module
from deployments.stateful.replica.claims import Claims, Part
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts, PendingResponse
from deployments.stateful.replica.phases import Phase

KEY = Key("run", "300839359")


def parts_of(claims: Claims, expired: bool = False) -> list[Part]:
    return [*claims.outlines(expired), *claims.details()]


def owning(held: HeldStates, n: int) -> list[Key]:
    keys = [Key(f"run-{number}", "300839359") for number in range(n)]
    for number, key in enumerate(keys):
        held.request(key)
        held.grant(key, Grant(Version(1, number), None), np.full(128, number, np.float32))
    return keys


def test_a_state_given_back_is_claimed_still() -> None:
    """For a moment only the authority has it, and the authority may die in that moment."""
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    held.request(KEY)
    held.grant(KEY, Grant(Version(1, 4), None), np.zeros(128, np.float32))
    held.recall(KEY)
    (leaving,) = held.in_phase(Phase.RELEASING)
    claims.release(leaving)
    assert held.phase(KEY) is Phase.NOT_OWNED
    (part,) = parts_of(claims)
    assert part.message.owned.keys == []
    assert part.message.released.keys == [KEY]
    assert part.message.released.versions == [Version(1, 4)]


@pytest.mark.parametrize("lost", [False, True])
async def test_answers_that_wait_leave_when_the_whole_claim_is_settled(lost: bool) -> None:
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    (key,) = owning(held, 1)
    (state,) = held.in_phase(Phase.OWNED)
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    held.advance(state, np.ones(128, np.float32))
    state.pending.append(PendingResponse(state.version.step, answer, "stepped"))
    (part,) = parts_of(claims)
    claims.settle_part(part, Claimed(lost=[key] if lost else []))
    assert not answer.done()
    claims.settle()
    if lost:
        with pytest.raises(OutcomeUnknownError):
            await answer
    else:
        assert await answer == "stepped"
    assert held.phase(key) is (Phase.NOT_OWNED if lost else Phase.OWNED)


def test_what_a_claim_named_that_failed_on_its_way_has_expired_with_the_rest() -> None:
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    (key,) = owning(held, 1)
    (part,) = parts_of(claims)
    claims.settle_part(part, Claimed())  # and the next part is lost
    (part,) = parts_of(claims, expired=True)
    assert (part.message.owned.keys, part.message.released.keys) == ([], [])
    assert part.message.last
    claims.settle_part(part, Claimed())
    claims.settle()
    assert held.phase(key) is Phase.NOT_OWNED


def test_of_many_states_only_those_are_sent_that_the_authority_asks_for(monkeypatch) -> None:
    monkeypatch.setattr(module, "STATES_PER_PART", 3)
    monkeypatch.setattr(module, "NAMES_PER_PART", 3)
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    keys = owning(held, 8)
    for part in claims.outlines():
        states = part.message.owned
        assert states.states.shape == (len(states.keys), 0)
        assert not part.message.last
        claims.settle_part(part, Claimed([key for key in states.keys if key == keys[4]]))
    (part,) = claims.details()
    assert part.message.last
    assert part.message.owned.keys == [keys[4]]
    assert part.message.owned.states[0].view(np.float32).tolist() == [4.0] * 128
    claims.settle_part(part, Claimed())
    claims.settle()
    assert [state.key for state in held.in_phase(Phase.OWNED)] == keys


def test_only_the_last_part_of_a_claim_says_that_nothing_follows(monkeypatch) -> None:
    monkeypatch.setattr(module, "STATES_PER_PART", 2)
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    keys = owning(held, 5)
    for part in claims.outlines():
        claims.settle_part(part, Claimed(keys))
    assert [part.message.last for part in claims.details()] == [False, False, True]


def test_few_states_are_claimed_in_one_message() -> None:
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    keys = owning(held, 8)
    (part,) = parts_of(claims)
    assert part.message.last
    assert part.message.owned.keys == keys
    assert part.message.owned.states.shape == (8, 512)


def test_a_state_recalled_between_two_parts_is_owned_when_it_was_claimed_as_owned(
    monkeypatch,
) -> None:
    monkeypatch.setattr(module, "STATES_PER_PART", 1)
    monkeypatch.setattr(module, "NAMES_PER_PART", 1)
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    keys = owning(held, 2)
    outlines = claims.outlines()
    claims.settle_part(next(outlines), Claimed())
    held.recall(keys[1])
    (part,) = outlines
    assert part.message.owned.keys == [keys[1]]
    claims.settle_part(part, Claimed())
    for part in claims.details():
        claims.settle_part(part, Claimed())
    claims.settle()
    assert [held.phase(key) for key in keys] == [Phase.OWNED, Phase.OWNED]


async def test_answers_of_states_that_have_expired_do_not_hang() -> None:
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    owning(held, 1)
    (state,) = held.in_phase(Phase.OWNED)
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    held.advance(state, np.ones(128, np.float32))
    state.sent = state.version.step
    state.pending.append(PendingResponse(state.version.step, answer, "stepped"))
    parts_of(claims, expired=True)
    claims.settle()
    with pytest.raises(OutcomeUnknownError):
        await answer


def test_a_state_that_a_claim_has_given_back_is_claimed_again() -> None:
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    (key,) = owning(held, 1)
    held.recall(key)
    parts_of(claims)
    claims.settle()
    assert held.phase(key) is Phase.NOT_OWNED
    (part,) = parts_of(claims)
    assert part.message.released.keys == [key]
