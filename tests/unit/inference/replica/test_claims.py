"""What a replica claims when it opens a session."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from deployments.inference.protocol import (
    Claimed,
    Grant,
    Key,
    OutcomeUnknownError,
    Version,
)
from deployments.inference.replica.claims import Claims
from deployments.inference.replica.held_state import Unanswered
from deployments.inference.replica.held_states import HeldStates, LeaseCounts
from deployments.inference.replica.phases import Phase

KEY = Key("run", "300839359")


def test_a_state_given_back_is_claimed_still() -> None:
    """For a moment only the authority has it, and the authority may die in that moment."""
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    held.ask(KEY)
    held.grant(KEY, Grant(Version(1, 4), None), np.zeros(128, np.float32))
    held.recall(KEY)
    (leaving,) = held.in_phase(Phase.LEAVING)
    claims.give_back(leaving)
    assert held.phase(KEY) is Phase.FOREIGN
    (part,) = claims.parts(lease_valid=True)
    assert part.message.owned.keys == []
    assert part.message.given_back.keys == [KEY]
    assert part.message.given_back.versions == [Version(1, 4)]


@pytest.mark.parametrize("lease_valid", [True, False])
async def test_an_answer_waits_on_when_another_replica_may_still_claim_a_later_state(
    lease_valid: bool,
) -> None:
    """Nobody can have been granted the state since only if the lease held all the time."""
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    held.ask(KEY)
    held.grant(KEY, Grant(Version(1, 4), None), np.zeros(128, np.float32))
    (state,) = held.in_phase(Phase.OWNED)
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    held.advance(state, np.ones(128, np.float32))
    state.unanswered.append(Unanswered(5, answer, "stepped"))
    (part,) = claims.parts(lease_valid)
    claims.settle_part(part, Claimed(kept=[], accepted=[KEY]))
    assert answer.done() == lease_valid
    claims.settle()
    if lease_valid:
        assert await answer == "stepped"
    else:
        with pytest.raises(OutcomeUnknownError):
            await answer


def test_what_was_kept_by_a_claim_that_failed_on_its_way_has_expired_with_the_rest() -> None:
    held = HeldStates()
    claims = Claims(held, LeaseCounts(), now=lambda: 0.0)
    held.ask(KEY)
    held.grant(KEY, Grant(Version(1, 4), None), np.zeros(128, np.float32))
    (part,) = claims.parts(lease_valid=True)
    claims.settle_part(part, Claimed(kept=[KEY], accepted=[KEY]))  # and the next part is lost
    (part,) = claims.parts(lease_valid=False, expired=True)
    assert (part.message.owned.keys, part.message.given_back.keys) == ([], [])
    assert part.message.last
    claims.settle_part(part, Claimed(kept=[], accepted=[]))
    claims.settle()
    assert held.phase(KEY) is Phase.FOREIGN
