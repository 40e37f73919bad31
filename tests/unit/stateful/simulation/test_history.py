"""When the judge may count a step as committed."""

from __future__ import annotations

import pytest

from tests.unit.stateful.simulation.history import History, Step


@pytest.fixture
def history() -> History:
    """Return a history of two steps, of which the second continues from the first."""
    history = History()
    for number in (1, 2):
        history.steps.append(Step(number, number, number - 1, 1, number, "replica", 0.0))
    return history


def committed(history: History) -> list[float | None]:
    return [step.committed_at for step in history.steps]


def test_a_state_in_the_store_is_committed_with_all_that_led_to_it(history):
    history.store(2, 5.0)
    assert committed(history) == [5.0, 5.0]


def test_a_claim_that_was_lost_does_not_count_although_the_store_had_its_state(history):
    history.store(2, 5.0)
    history.lose_claim(2)
    history.store(2, 6.0)
    assert committed(history) == [None, None]


def test_what_a_response_has_confirmed_stays_committed_after_a_lost_claim(history):
    history.store(2, 5.0)
    history.commit(1, 6.0)
    history.lose_claim(2)
    assert committed(history) == [5.0, None]
