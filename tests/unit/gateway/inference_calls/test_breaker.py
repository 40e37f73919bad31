"""The circuit breaker, on a clock of the test's own."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.gateway.errors import InferenceUnavailableError
from deployments.gateway.inference_calls.breaker import CircuitBreaker, State
from tests.support.virtual_time import Clock


def down() -> InferenceUnavailableError:
    return InferenceUnavailableError("failing")


class Guarded:
    """A breaker with what it guards."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.changes: list[State] = []
        self.breaker = CircuitBreaker(3, 1.0, self.changes.append, self.clock)

    def state(self) -> State:
        return self.breaker.state

    def call(self, error: BaseException | None = None) -> None:
        with self.breaker.guard():
            if error is not None:
                raise error

    def fail(self, times: int = 1) -> None:
        for _ in range(times):
            with pytest.raises(InferenceUnavailableError, match="failing"):
                self.call(down())


@pytest.fixture
def guarded():
    return Guarded()


def test_it_opens_after_the_failures_in_a_row(guarded):
    guarded.fail(2)
    guarded.call()
    guarded.fail(2)
    assert guarded.state() is State.CLOSED
    guarded.fail(1)
    assert guarded.state() is State.OPEN
    assert guarded.changes == [State.OPEN]


def test_while_open_nothing_is_called(guarded):
    guarded.fail(3)
    guarded.clock.now = 0.99
    with pytest.raises(InferenceUnavailableError, match="breaker_open"), guarded.breaker.guard():
        pytest.fail("the call was made")


def test_after_the_pause_one_probe_is_made(guarded):
    guarded.fail(3)
    guarded.clock.now = 1.0
    assert guarded.state() is State.HALF_OPEN
    with guarded.breaker.guard(), pytest.raises(InferenceUnavailableError, match="breaker_open"):
        guarded.call()
    assert guarded.state() is State.CLOSED
    assert guarded.changes == [State.OPEN, State.CLOSED]


def test_a_failed_probe_starts_the_pause_anew(guarded):
    guarded.fail(3)
    guarded.clock.now = 1.5
    guarded.fail()
    guarded.clock.now = 2.4
    assert guarded.state() is State.OPEN
    guarded.clock.now = 2.5
    guarded.call()
    assert guarded.state() is State.CLOSED
    assert guarded.changes == [State.OPEN, State.CLOSED]


def test_a_cancelled_probe_is_no_verdict(guarded):
    guarded.fail(3)
    guarded.clock.now = 1.0
    with pytest.raises(asyncio.CancelledError):
        guarded.call(asyncio.CancelledError())
    assert guarded.state() is State.OPEN
    guarded.clock.now = 2.0
    guarded.call()
    assert guarded.state() is State.CLOSED


def test_another_error_is_an_answer(guarded):
    guarded.fail(2)
    with pytest.raises(KeyError):
        guarded.call(KeyError())
    guarded.fail(2)
    assert guarded.state() is State.CLOSED


@given(st.lists(st.sampled_from(["up", "down", "wait"]), max_size=60))
def test_a_service_that_is_back_is_called_again_after_one_pause(events):
    guarded = Guarded()
    for event in events:
        if event == "wait":
            guarded.clock.now += 0.5
        else:
            with contextlib.suppress(InferenceUnavailableError):
                guarded.call(down() if event == "down" else None)
    guarded.clock.now += 1.0
    guarded.call()
    assert guarded.state() is State.CLOSED
