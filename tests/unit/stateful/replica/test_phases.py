"""The table of phases: every transition, and everything else refused (invariant 7)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from deployments.stateful.protocol import Grant, Key, Version
from deployments.stateful.replica.held_state import HeldState
from deployments.stateful.replica.held_states import HeldStates
from deployments.stateful.replica.phases import TRANSITIONS, Event, Phase

KEY = Key("run", "300839359")
LIMIT = 100


def paths() -> dict[Phase, list[Event]]:
    """Return the shortest path from NOT_OWNED to each phase."""
    found: dict[Phase, list[Event]] = {Phase.NOT_OWNED: []}
    waiting = [Phase.NOT_OWNED]
    for phase in waiting:  # grows meanwhile
        for (before, event), after in TRANSITIONS.items():
            if before is phase and after not in found:
                found[after] = [*found[phase], event]
                waiting.append(after)
    return found


def in_phase(phase: Phase) -> HeldStates:
    held = HeldStates()
    for event in paths()[phase]:
        held.fire(KEY, event)
    assert held.phase(KEY) is phase
    return held


def outgoing(held: HeldStates) -> tuple[list[Key], list[HeldState]]:
    stepped, releasing = held.outgoing(LIMIT)
    return stepped.keys, releasing


def test_every_phase_can_be_reached_and_left():
    assert set(paths()) == set(Phase)
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
def test_any_other_event_is_a_defect_and_changes_nothing(phase, event):
    held = in_phase(phase)
    with pytest.raises(AssertionError, match="invariant 7"):
        held.fire(KEY, event)
    assert held.phase(KEY) is phase


def test_a_state_is_in_the_outbox_while_it_is_being_released():
    held = in_phase(Phase.OWNED)
    assert outgoing(held) == ([], [])
    held.fire(KEY, Event.RECALL)
    stepped, releasing = held.outgoing(LIMIT)
    assert (stepped.keys, [state.key for state in releasing]) == ([], [KEY])
    held.put_back(stepped, releasing)
    assert [state.key for state in held.outgoing(LIMIT)[1]] == [KEY]
    held.put_back(stepped, releasing)
    held.fire(KEY, Event.RELEASED)
    assert outgoing(held) == ([], [])


@pytest.mark.parametrize("requested_again", [False, True])
def test_a_claimed_state_that_was_released_meanwhile_is_owned_again_if_it_is_kept(requested_again):
    held = in_phase(Phase.OWNED)
    ((claimed,), _) = held.claimable()
    held.fire(KEY, Event.RECALL)
    held.fire(KEY, Event.RELEASED)
    if not requested_again:
        assert held.keep([claimed]) == []
        assert held.owned(KEY) is claimed
        return
    held.request(KEY)
    held.grant(KEY, Grant(Version(2, 0), None), np.zeros(1))
    held.recall(KEY)
    _, (replaced,) = held.outgoing(LIMIT)
    assert held.keep([claimed]) == [replaced]
    held.release(replaced)
    held.refuse(replaced)
    assert held.owned(KEY) is claimed
