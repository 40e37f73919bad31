"""Steps and resets for other services, which call through a Serve handle.

Callers share no class with this service, so everything here is plain tuples: a step is (run or
None, junction id, observation); its outcome is (action, confidence), or ("error", HTTP status,
detail).
"""

from __future__ import annotations

import asyncio

from deployments.inference.errors import InferenceError, refusal_of
from deployments.inference.protocol import HiddenStateError
from deployments.inference.replica.stepper import Decision
from deployments.inference.schemas import ResetResponse
from deployments.inference.service import InferenceService, run_of

Step = tuple[str | None, str, list[float]]
Error = tuple[str, int, str]
Outcome = tuple[int, float] | Error | str


async def answer_steps(service: InferenceService, steps: list[Step]) -> list[Outcome]:
    """Submit all steps at once, so that they share a batch, and collect their outcomes."""
    submitted = [_submit(service, step) for step in steps]
    try:
        return [await _outcome(each) for each in submitted]
    except BaseException:  # the caller has given up: what is not stepped yet must not be
        for future in submitted:
            if isinstance(future, asyncio.Future):
                future.cancel()
        raise


async def answer_reset(service: InferenceService, run: str | None) -> Outcome:
    """The reset's message, or an error."""
    try:
        await service.reset(run_of(run, None))
    except InferenceError as error:
        return _error(error)
    return ResetResponse().message


def _submit(service: InferenceService, step: Step) -> asyncio.Future[Decision] | InferenceError:
    run, junction_id, obs = step
    try:
        return service.predict(run_of(run, None), junction_id, obs, shared=True)
    except InferenceError as error:
        return error


async def _outcome(submitted: asyncio.Future[Decision] | InferenceError) -> Outcome:
    try:
        if isinstance(submitted, InferenceError):
            raise submitted
        decision = await submitted
    except (InferenceError, HiddenStateError) as error:
        return _error(refusal_of(error))
    return decision.action, decision.confidence


def _error(error: InferenceError) -> Error:
    return "error", error.status, str(error)
