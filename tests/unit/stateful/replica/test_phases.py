"""The table of a key's phases: walked edge by edge, and everything beside it refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from deployments.stateful.protocol import Grant, Key, Version
from deployments.stateful.replica.held_states import HeldStates
from deployments.stateful.replica.phases import TRANSITIONS, Event, Phase

KEY = Key("run", "300839359")
ALL = 100


def ways() -> dict[Phase, list[Event]]:
    """Find the shortest way from FOREIGN to each phase."""
    found: dict[Phase, list[Event]] = {Phase.NOT_OWNED: []}
    waiting = [Phase.NOT_OWNED]
    for phase in waiting:  # grows while it is walked
        for (before, event), after in TRANSITIONS.items():
            if before is phase and after not in found:
                found[after] = [*found[phase], event]
                waiting.append(after)
    return found


def in_phase(phase: Phase) -> HeldStates:
    held = HeldStates()
    for event in ways()[phase]:
        held.fire(KEY, event)
    assert held.phase(KEY) is phase
    return held


def test_every_phase_can_be_reached_and_left_for_good():
    assert set(ways()) == set(Phase)
    leading_back = {Phase.NOT_OWNED}
    for _ in Phase:
        leading_back |= {
            before for (before, _), after in TRANSITIONS.items() if after in leading_back
        }
    assert leading_back == set(Phase)


@pytest.mark.parametrize(("phase", "event"), list(TRANSITIONS))
def test_an_event_leads_to_the_phase_of_the_table(phase, event):
    held = in_phase(phase)
    state = held.fire(KEY, event)
    assert held.phase(KEY) is TRANSITIONS[phase, event]
    assert (state is None) == (held.phase(KEY) is Phase.NOT_OWNED)
    assert (held.owned(KEY) is None) == (held.phase(KEY) is not Phase.OWNED)


@pytest.mark.parametrize(
    ("phase", "event"), [pair for pair in product(Phase, Event) if pair not in TRANSITIONS]
)
def test_an_event_beside_the_table_is_a_defect_and_changes_nothing(phase, event):
    held = in_phase(phase)
    with pytest.raises(AssertionError, match="invariant 7"):
        held.fire(KEY, event)
    assert held.phase(KEY) is phase


def test_what_leaves_is_told_to_the_authority_and_what_is_foreign_is_not():
    held = in_phase(Phase.OWNED)
    assert held.outgoing(ALL) == ([], [])
    held.fire(KEY, Event.RECALL)
    stepped, leaving = held.outgoing(ALL)
    assert (stepped, [state.key for state in leaving]) == ([], [KEY])
    held.put_back(stepped, leaving)
    assert [state.key for state in held.outgoing(ALL)[1]] == [KEY], "it did not arrive"
    held.put_back(stepped, leaving)
    held.fire(KEY, Event.RELEASED)
    assert held.outgoing(ALL) == ([], [])


def test_a_claimed_state_that_was_given_back_meanwhile_is_owned_again_when_it_is_kept():
    held = in_phase(Phase.OWNED)
    ((claimed,), _) = held.claimable()
    held.fire(KEY, Event.RECALL)
    held.fire(KEY, Event.RELEASED)
    held.keep([claimed])
    assert held.owned(KEY) is claimed


def test_the_release_of_what_a_new_session_has_replaced_changes_nothing():
    held = in_phase(Phase.OWNED)
    ((claimed,), _) = held.claimable()
    held.fire(KEY, Event.RECALL)
    held.fire(KEY, Event.RELEASED)
    held.request(KEY)
    held.grant(KEY, Grant(Version(2, 0), None), np.zeros(128, np.float32))
    held.recall(KEY)
    _, (leaving,) = held.outgoing(ALL)
    held.keep([claimed])
    held.release(leaving)
    assert held.owned(KEY) is claimed
