"""What a replica claims when it opens a session, and what it owns afterwards."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.stateful.protocol import Claimed, Grant, Key, OutcomeUnknownError, Version
from deployments.stateful.replica import claims as module
from deployments.stateful.replica.claims import (
    KEEP_RELEASED_S,
    Claims,
    Part,
    RecentlyReleased,
)
from deployments.stateful.replica.held_state import HeldCopy
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts
from deployments.stateful.replica.phases import Phase
from deployments.stateful.replica.queues import OneResponse, StepResult, StepResults

RUN_TTL_S = 3600.0


class Holding:
    """A replica that owns n states; the state of each is filled with its number."""

    def __init__(self, n: int) -> None:
        self.now = 0.0
        self.held = HeldStates()
        self.counts = LeaseCounts()
        self.claims = Claims(self.held, self.counts, lambda: self.now, RUN_TTL_S)
        self.keys = [Key(f"run-{number}", "300839359") for number in range(n)]
        for number, key in enumerate(self.keys):
            self.held.request(key)
            state = np.full((2, 2), number, np.float32)
            self.held.grant(key, Grant(Version(1, number), None), state)

    def parts(self) -> list[Part]:
        return [*self.claims.outlines(), *self.claims.details()]

    def settle(self, parts: list[Part], lost: list[Key] | None = None) -> None:
        for part in parts:
            self.claims.settle_part(part, Claimed(lost=lost or []))
        self.claims.settle()

    def pending_response(self) -> asyncio.Future[StepResult]:
        """Step the first state, with a response that waits."""
        (state, *_) = self.held.in_phase(Phase.OWNED)
        response: asyncio.Future[StepResult] = asyncio.get_running_loop().create_future()
        batch = self.held.batch_of([state])
        self.held.advance(batch, state.state[None] + 1)
        self.held.pending.add(batch, OneResponse(response), StepResults([()], [state.step]))
        return response

    def phases(self) -> list[Phase]:
        return [self.held.phase(key) for key in self.keys]


def test_a_released_state_is_claimed_as_released_for_a_while():
    """For a moment only the authority has it, and may die then."""
    holding = Holding(2)
    key, releasing = holding.keys
    for each in holding.keys:
        holding.held.recall(each)
    (state, _) = holding.held.in_phase(Phase.RELEASING)
    holding.claims.release(state)
    assert holding.phases() == [Phase.NOT_OWNED, Phase.RELEASING]
    for _ in range(2):  # the first claim releases the second state
        (part,) = holding.parts()
        assert part.message.owned.keys == []
        assert set(part.message.released.keys) == {key, releasing}
        holding.settle([part])
    assert holding.phases() == [Phase.NOT_OWNED, Phase.NOT_OWNED]


@pytest.mark.parametrize("lost", [False, True])
async def test_pending_responses_are_sent_when_the_whole_claim_is_settled(lost):
    holding = Holding(1)
    response = holding.pending_response()
    (part,) = holding.parts()
    holding.claims.settle_part(part, Claimed(lost=holding.keys if lost else []))
    assert not response.done()
    holding.claims.settle()
    if lost:
        with pytest.raises(OutcomeUnknownError):
            await response
    else:
        assert await response == StepResult((), 1)
    assert holding.phases() == [Phase.NOT_OWNED if lost else Phase.OWNED]
    assert (holding.counts.sessions, holding.counts.states_refused) == (1, lost)


@pytest.mark.parametrize("expired", [False, True])
def test_each_part_of_a_claim_says_whether_its_states_have_expired(monkeypatch, expired):
    monkeypatch.setattr(module, "STATES_PER_PART", 1)
    holding = Holding(2)
    parts = []
    for part in holding.claims.outlines(expired):
        parts.append(part)
        holding.claims.settle_part(part, Claimed(holding.keys))
    parts += holding.claims.details()
    assert [part.message.expired for part in parts] == [expired] * 3


def test_few_states_are_claimed_in_one_message():
    holding = Holding(8)
    (part,) = holding.parts()
    assert part.message.last
    assert part.message.owned.keys == holding.keys
    assert part.message.owned.states.shape == (8, 16)


def test_of_many_states_only_the_wanted_ones_follow_their_outlines(monkeypatch):
    monkeypatch.setattr(module, "STATES_PER_PART", 3)
    monkeypatch.setattr(module, "NAMES_PER_PART", 3)
    holding = Holding(8)
    wanted = holding.keys[2:6]
    for part in holding.claims.outlines():
        states = part.message.owned
        assert states.states.shape == (len(states.keys), 0)
        assert not part.message.last
        holding.claims.settle_part(part, Claimed([key for key in states.keys if key in wanted]))
    parts = list(holding.claims.details())
    assert [part.message.last for part in parts] == [False, True]
    assert [key for part in parts for key in part.message.owned.keys] == wanted
    assert parts[1].message.owned.states.view(np.float32).tolist() == [[5.0] * 4]
    holding.settle(parts)
    assert holding.phases() == [Phase.OWNED] * 8


def test_a_released_state_that_is_wanted_follows_its_outline(monkeypatch):
    monkeypatch.setattr(module, "STATES_PER_PART", 1)
    monkeypatch.setattr(module, "NAMES_PER_PART", 1)
    holding = Holding(2)
    for key in holding.keys:
        holding.held.recall(key)
    wanted = holding.keys[1:]
    for part in holding.claims.outlines():
        named = part.message.released.keys
        holding.claims.settle_part(part, Claimed([key for key in named if key in wanted]))
    assert [part.message.released.keys for part in holding.claims.details()] == [wanted]


def test_a_state_that_is_recalled_between_two_parts_stays_owned_if_it_was_claimed_as_owned(
    monkeypatch,
):
    monkeypatch.setattr(module, "STATES_PER_PART", 1)
    monkeypatch.setattr(module, "NAMES_PER_PART", 1)
    holding = Holding(2)
    outlines = holding.claims.outlines()
    holding.claims.settle_part(next(outlines), Claimed())
    holding.held.recall(holding.keys[1])
    (part,) = outlines
    assert part.message.owned.keys == [holding.keys[1]]
    holding.claims.settle_part(part, Claimed())
    holding.settle(list(holding.claims.details()))
    assert holding.phases() == [Phase.OWNED, Phase.OWNED]


def test_a_copy_of_a_released_state_is_not_claimed_after_its_run_has_expired():
    now = 0.0
    recent = RecentlyReleased(lambda: now, ttl_s=2.0)
    recent.note(HeldCopy(Key("a", "1"), Version(1, 1), np.zeros(1), ()))
    now = 1.9
    recent.prune()
    copies, expired = recent.copies()
    assert (len(copies), expired) == (1, [])
    now = 2.1
    recent.prune()
    assert recent.copies() == ([], [])


def test_a_copy_of_a_released_state_is_kept_while_no_authority_answers():
    now = 0.0
    recent = RecentlyReleased(lambda: now, ttl_s=2.0)
    recent.note(HeldCopy(Key("a", "1"), Version(1, 1), np.zeros(1), ()))
    now = 3 * KEEP_RELEASED_S
    copies, expired = recent.copies()
    assert (copies, len(expired)) == ([], 1)


def test_a_copy_whose_run_may_have_expired_is_claimed_as_expired_whenever_the_lease_ended():
    """Others may have stepped the run since, and an authority that has died may have cleared it."""
    holding = Holding(3)
    old, new, _ = holding.keys
    for key in (old, new):
        holding.held.recall(key)
        (releasing,) = holding.held.in_phase(Phase.RELEASING)
        holding.claims.release(releasing)
        holding.now += RUN_TTL_S - 1
    parts = holding.parts()
    claimed = [(part.message.expired, part.message.released.keys) for part in parts]
    assert claimed == [(True, [old]), (False, [new])]
    assert [part.message.last for part in parts] == [False, True]
    holding.settle(parts)
    assert holding.phases()[2] == Phase.OWNED


def test_the_newest_copy_of_a_released_state_is_kept_for_a_while():
    now = 0.0
    recent = RecentlyReleased(lambda: now)

    def note(run: str, step: int) -> None:
        recent.note(HeldCopy(Key(run, "1"), Version(1, step), np.zeros(1), ()))

    def kept() -> dict[str, int]:
        recent.prune()
        return {copy.key.run: copy.version.step for copy in recent.copies()[0]}

    note("a", 1)
    note("b", 1)
    now = KEEP_RELEASED_S - 1
    note("a", 5)
    assert kept() == {"a": 5, "b": 1}
    now = KEEP_RELEASED_S + 1
    assert kept() == {"a": 5}
    now = 2 * KEEP_RELEASED_S
    assert kept() == {}
