"""Steps and resets for other services, which call through a Serve handle.

Callers share no class with this service, so everything here is plain tuples: a step is (run or
None, junction id, observation, idempotency key or None); its outcome is (action, confidence), or
("error", HTTP status, detail, code or None).
"""

from __future__ import annotations

from deployments.inference.errors import InferenceError
from deployments.inference.schemas import ResetResponse
from deployments.inference.service import (
    Decision,
    InferenceService,
    Submitted,
    outcomes_of,
    request_id_of,
    run_of,
)

Step = tuple[str | None, str, list[float], str | None]
Error = tuple[str, int, str, str | None]
Outcome = tuple[int, float] | Error | str


async def answer_steps(service: InferenceService, steps: list[Step]) -> list[Outcome]:
    """Submit all steps at once, so that they share a batch, and collect their outcomes."""
    outcomes = await outcomes_of([_submit(service, step) for step in steps])
    return [_plain(outcome) for outcome in outcomes]


async def answer_reset(service: InferenceService, run: str | None) -> Outcome:
    """Clear a run; return the reset's message, or an error."""
    try:
        await service.reset(run_of(run, None))
    except InferenceError as error:
        return _plain(error)
    return ResetResponse().message


def _submit(service: InferenceService, step: Step) -> Submitted:
    run, junction_id, obs, request_id = step
    try:
        return service.predict(
            run_of(run, None),
            junction_id,
            obs,
            request_id=request_id_of(request_id),
            shared=True,
        )
    except InferenceError as error:
        return error


def _plain(outcome: Decision | InferenceError) -> Outcome:
    if isinstance(outcome, InferenceError):
        return "error", outcome.status, str(outcome), outcome.code
    return outcome.action, outcome.confidence
