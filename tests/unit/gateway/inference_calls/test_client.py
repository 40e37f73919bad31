"""What the client makes of calls that fail: a second call of the same step, in time."""

import asyncio
from collections.abc import Sequence

import pytest

from deployments.gateway.errors import BadRequestError, Cause, InferenceUnavailableError
from deployments.gateway.inference_calls.batcher import Decided, Step
from deployments.gateway.inference_calls.client import (
    RETRY_PAUSE_S,
    InferenceClient,
)
from deployments.gateway.inference_calls.http_calls import HttpCalls
from tests.support.virtual_time import virtual_time

DEADLINE_S = 2.0
STEP = Step("run-7", "300839359", [1.0], "key-1")
Outcome = int | Exception | None


class FakeCalls(HttpCalls):
    """Ends each call as the test says, after as many seconds as it says; None: never."""

    def __init__(self, *outcomes: Outcome, takes_s: float = 0.0) -> None:
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


def down(cause: Cause = "unreachable") -> InferenceUnavailableError:
    return InferenceUnavailableError(cause)


@pytest.mark.parametrize("cause", ["unreachable", "failing", "overloaded", "outcome_unknown"])
@virtual_time
async def test_a_call_that_may_have_been_lost_is_made_again_after_a_pause_with_its_key(cause):
    fake = FakeCalls(down(cause), 3)
    assert await InferenceClient(fake, DEADLINE_S).act(STEP) == Decided(3)
    assert fake.calls == [(0, STEP), (pytest.approx(RETRY_PAUSE_S), STEP)]


NO_TIME_LEFT_S = DEADLINE_S - RETRY_PAUSE_S
NOT_HELPED = [down("not_loaded"), down("too_slow"), down("unusable"), down("too_many_states")]


@pytest.mark.parametrize(
    ("outcomes", "takes_s", "told", "ends_at_s"),
    [
        *(([error], 0.0, error, 0.0) for error in (*NOT_HELPED, BadRequestError("too large"))),
        ([down("unreachable"), down("failing"), 1], 0.0, down("failing"), RETRY_PAUSE_S),
        ([down("overloaded")], NO_TIME_LEFT_S, down("overloaded"), NO_TIME_LEFT_S),
        ([down(), None], 0.5, down("too_slow"), DEADLINE_S),
    ],
    ids=str,
)
@virtual_time
async def test_where_no_further_call_would_help_or_end_in_time_the_last_one_says_why(
    outcomes, takes_s, told, ends_at_s
):
    fake = FakeCalls(*outcomes, takes_s=takes_s)
    with pytest.raises(type(told), match=str(told)):
        await InferenceClient(fake, DEADLINE_S).act(STEP)
    assert fake.outcomes in ([], [1]), "no third call"
    assert asyncio.get_running_loop().time() == pytest.approx(ends_at_s)
