"""What other services get through a handle: plain tuples, errors included."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from deployments.inference.errors import (
    ModelNotLoadedError,
    UnconfirmedError,
    UnknownJunctionError,
)
from deployments.inference.handle_calls import Step, answer_reset, answer_steps
from deployments.inference.protocol import NonFiniteStateError
from deployments.inference.replica.stepper import Decision
from deployments.inference.service import InferenceService

JUNCTION = "300839359"


class FakeService:
    """Steps whose outcome is queued; a callable is raised from at once."""

    def __init__(self, *outcomes: Decision | Exception | None) -> None:
        self.asked: list[Step] = []
        self.steps: list[asyncio.Future[Decision]] = []
        self.resets: list[str] = []
        self.reset_error: Exception | None = None
        self._outcomes = list(outcomes)

    def predict(
        self, run: str, junction_id: str, obs: list[float], *, request_id: str | None, shared: bool
    ) -> asyncio.Future[Decision]:
        assert shared
        self.asked.append((run, junction_id, obs, request_id))
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, UnknownJunctionError | ModelNotLoadedError):
            raise outcome
        step: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self.steps.append(step)
        if isinstance(outcome, Exception):
            step.set_exception(outcome)
        elif outcome is not None:
            step.set_result(outcome)
        return step

    async def reset(self, run: str) -> None:
        if self.reset_error:
            raise self.reset_error
        self.resets.append(run)


def as_service(fake: FakeService) -> InferenceService:
    return cast(InferenceService, fake)


async def test_each_step_gets_its_own_outcome_in_order():
    fake = FakeService(
        Decision(2, 0.9, 1),
        UnknownJunctionError("x"),
        ModelNotLoadedError(),
        NonFiniteStateError(),
        Decision(1, 0.5, 2),
    )
    steps: list[Step] = [(None, JUNCTION, [1.0], None)] * 4 + [("run-7", JUNCTION, [2.0], "key")]
    outcomes = await answer_steps(as_service(fake), steps)
    assert outcomes[0] == (2, 0.9)
    assert [outcome[:2] for outcome in outcomes[1:4]] == [
        ("error", 404),
        ("error", 503),
        ("error", 422),
    ]
    assert [outcome[3:] for outcome in outcomes[1:4]] == [(None,), ("model_not_loaded",), (None,)]
    assert outcomes[4] == (1, 0.5)
    assert fake.asked[0] == ("default", JUNCTION, [1.0], None)
    assert fake.asked[4] == ("run-7", JUNCTION, [2.0], "key")


async def test_an_invalid_run_or_key_is_an_error_of_its_step_alone():
    fake = FakeService(Decision(0, 1.0, 1))
    steps: list[Step] = [
        ("not a run", JUNCTION, [1.0], None),
        (None, JUNCTION, [1.0], "not a key"),
        (None, JUNCTION, [1.0], "a-key"),
    ]
    outcomes = await answer_steps(as_service(fake), steps)
    assert [outcome[:2] for outcome in outcomes] == [("error", 400), ("error", 400), (0, 1.0)]


async def test_a_defect_says_that_its_own_step_is_in_doubt_and_no_other(caplog):
    fake = FakeService(Decision(2, 0.9, 1), RuntimeError("secret"), Decision(1, 0.5, 2))
    steps: list[Step] = [(None, JUNCTION, [1.0], None)] * 3
    assert await answer_steps(as_service(fake), steps) == [
        (2, 0.9),
        ("error", 500, "Internal Server Error", "outcome_unknown"),
        (1, 0.5),
    ]
    assert "secret" in caplog.text


async def test_steps_of_a_caller_that_gave_up_are_not_made():
    fake = FakeService(None, None)
    steps: list[Step] = [(None, JUNCTION, [1.0], None)] * 2
    call = asyncio.create_task(answer_steps(as_service(fake), steps))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [step.cancelled() for step in fake.steps] == [True, True]


async def test_a_reset_answers_with_its_message_or_an_error():
    fake = FakeService()
    service = as_service(fake)
    assert await answer_reset(service, "run-7") == "Hidden states reset for all junctions"
    assert await answer_reset(service, None) == "Hidden states reset for all junctions"
    assert fake.resets == ["run-7", "default"]
    assert (await answer_reset(service, "not a run"))[:2] == ("error", 400)
    fake.reset_error = UnconfirmedError("not known")
    assert await answer_reset(service, None) == ("error", 503, "not known", "outcome_unknown")
