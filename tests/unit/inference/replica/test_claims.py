"""What a replica claims when it opens a session."""

from __future__ import annotations

import numpy as np

from deployments.inference.protocol import Grant, Key, Version
from deployments.inference.replica.claims import Claims
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
    (part,) = claims.parts()
    assert part.message.owned.keys == []
    assert part.message.given_back.keys == [KEY]
    assert part.message.given_back.versions == [Version(1, 4)]
