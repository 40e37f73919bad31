"""The circuit breaker, on a clock of the test's own."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.gateway.errors import InferenceUnavailableError
from deployments.gateway.inference_calls.breaker import CircuitBreaker, State
from tests.support.virtual_time import Clock

ERRORS: dict[str, BaseException] = {
    "down": InferenceUnavailableError("failing"),
    "full": InferenceUnavailableError("too_many_states"),
    "cancelled": asyncio.CancelledError(),
    "defect": KeyError(),
}


class Guarded:
    """A breaker that opens after three failures, with what it guards."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.changes: list[State] = []
        self.breaker = CircuitBreaker(3, 1.0, self.changes.append, self.clock)

    def call(self, error: BaseException | None = None) -> None:
        with self.breaker.guard():
            if error is not None:
                raise error

    def play(self, events: Iterable[str]) -> None:
        """Let seconds pass, or make a call that ends as its name says; ``refused``: is not made."""
        for event in events:
            if event == "up":
                self.call()
            elif event == "refused":
                with (
                    pytest.raises(InferenceUnavailableError, match="breaker_open"),
                    self.breaker.guard(),
                ):
                    pytest.fail("the call was made")
            elif event in ERRORS:
                with pytest.raises(type(ERRORS[event])) as raised:
                    self.call(ERRORS[event])
                assert raised.value is ERRORS[event]
            else:
                self.clock.now += float(event)


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ("down down up down down", State.CLOSED),
        ("down down defect down down full down down", State.CLOSED),
        ("down down down", State.OPEN),
        ("down down down 0.99 refused", State.OPEN),
        ("down down down 1.0", State.HALF_OPEN),
        ("down down down 1.5 down 0.9 refused", State.OPEN),
        ("down down down 1.5 down 1.0 up", State.CLOSED),
        ("down down down 1.0 cancelled refused", State.OPEN),
        ("down down down 1.0 cancelled 1.0 up", State.CLOSED),
    ],
)
def test_it_opens_after_the_failures_in_a_row_until_a_probe_succeeds(events, state):
    guarded = Guarded()
    guarded.play(events.split())
    assert guarded.breaker.state is state
    opened = [State.OPEN] if "down down down" in events else []
    assert guarded.changes == opened + ([State.CLOSED] if opened and state is State.CLOSED else [])


def test_after_the_pause_one_probe_is_made():
    guarded = Guarded()
    guarded.play(["down", "down", "down", "1.0"])
    with guarded.breaker.guard():
        guarded.play(["refused"])
    assert guarded.breaker.state is State.CLOSED


@given(st.lists(st.sampled_from(["up", "down", "0.5"]), max_size=60))
def test_a_service_that_is_back_is_called_again_after_one_pause(events):
    guarded = Guarded()
    for event in events:
        is_open = guarded.breaker.state is State.OPEN
        guarded.play(["refused" if is_open and event != "0.5" else event])
    guarded.play(["1.0", "up"])
    assert guarded.breaker.state is State.CLOSED
