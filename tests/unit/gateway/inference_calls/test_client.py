"""What the client makes of calls that fail: a second call of the same step, in time."""

import asyncio
from collections.abc import Sequence

import pytest

from deployments.gateway.errors import BadRequestError, Cause, InferenceUnavailableError, error_of
from deployments.gateway.inference_calls.batcher import Decided, Step
from deployments.gateway.inference_calls.breaker import State
from deployments.gateway.inference_calls.client import (
    BREAKER_FAILURES,
    RETRY_PAUSE_S,
    InferenceClient,
)
from deployments.gateway.inference_calls.http_calls import HttpCalls
from tests.support.virtual_time import virtual_time

DEADLINE_S = 2.0
STEP = Step("run-7", "300839359", [1.0], "key-1")


class FakeCalls(HttpCalls):
    """Ends each call as the test says, after as many seconds as it says."""

    def __init__(self, *outcomes: int | Exception | None, takes_s: float = 0.0) -> None:
        self.outcomes = list(outcomes)
        self.takes_s = takes_s
        self.calls: list[tuple[float, Step]] = []  # with the time of each

    async def step(self, steps: Sequence[Step]) -> Sequence[Decided]:
        (step,) = steps
        self.calls.append((asyncio.get_running_loop().time(), step))
        outcome = self.outcomes.pop(0)
        await asyncio.sleep(self.takes_s)
        if outcome is None:
            await asyncio.Event().wait()
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome is not None
        return [Decided(outcome)]


def client_of(fake: FakeCalls) -> InferenceClient:
    return InferenceClient(fake, DEADLINE_S)


def down(cause: Cause = "unreachable") -> InferenceUnavailableError:
    return InferenceUnavailableError(cause)


@pytest.mark.parametrize("cause", ["unreachable", "failing", "overloaded", "outcome_unknown"])
@virtual_time
async def test_a_call_that_may_have_been_lost_is_made_again_after_a_pause_with_its_key(cause):
    fake = FakeCalls(down(cause), 3)
    assert await client_of(fake).act(STEP) == Decided(3)
    assert fake.calls == [(0, STEP), (pytest.approx(RETRY_PAUSE_S), STEP)]


@pytest.mark.parametrize(
    "error",
    [down("not_loaded"), down("too_slow"), down("unusable"), BadRequestError("too large")],
    ids=str,
)
@virtual_time
async def test_what_a_second_call_would_not_help_is_not_called_again(error):
    fake = FakeCalls(error)
    with pytest.raises(type(error), match=str(error)):
        await client_of(fake).act(STEP)
    assert len(fake.calls) == 1


@virtual_time
async def test_at_the_cap_of_states_nobody_calls_again_and_the_breaker_stays_closed():
    refusal = error_of(503, "100000 hidden states are kept already", "too_many_states")
    fake = FakeCalls(*[refusal] * BREAKER_FAILURES * 2, 1)
    client = client_of(fake)
    for _ in range(BREAKER_FAILURES * 2):
        with pytest.raises(InferenceUnavailableError, match="too_many_states"):
            await client.act(STEP)
    assert client.breaker.state is State.CLOSED, "the states of other runs are stepped"
    assert await client.act(STEP) == Decided(1)


@virtual_time
async def test_there_is_no_third_call_and_the_second_tells_why():
    fake = FakeCalls(down("unreachable"), down("failing"))
    with pytest.raises(InferenceUnavailableError, match="failing"):
        await client_of(fake).act(STEP)
    assert len(fake.calls) == 2


@virtual_time
async def test_without_time_left_there_is_no_second_call():
    fake = FakeCalls(down("overloaded"), takes_s=DEADLINE_S - RETRY_PAUSE_S)
    with pytest.raises(InferenceUnavailableError, match="overloaded"):
        await client_of(fake).act(STEP)
    assert len(fake.calls) == 1


@virtual_time
async def test_the_second_call_ends_with_the_deadline_of_both():
    fake = FakeCalls(down(), None, takes_s=0.5)
    with pytest.raises(InferenceUnavailableError, match="too_slow"):
        await client_of(fake).act(STEP)
    assert len(fake.calls) == 2
    assert asyncio.get_running_loop().time() == pytest.approx(DEADLINE_S)


@virtual_time
async def test_a_second_call_that_succeeds_is_a_success_for_the_breaker():
    outcomes: list[int | Exception | None] = [down(), 1]
    fake = FakeCalls(*outcomes * BREAKER_FAILURES * 2)
    client = client_of(fake)
    assert [await client.act(STEP) for _ in range(BREAKER_FAILURES * 2)] == [
        Decided(1)
    ] * BREAKER_FAILURES * 2
    assert client.breaker.state is State.CLOSED
