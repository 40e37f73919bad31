"""Steps that one call asks for: they share a batch, and each has an outcome of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from deployments.inference.errors import InferenceError, refusal_of
from deployments.inference.protocol import HiddenStateError
from deployments.inference.replica.stepper import Decision

Submitted = asyncio.Future[Decision] | InferenceError


async def outcomes_of(submitted: Sequence[Submitted]) -> list[Decision | InferenceError]:
    """Wait for steps that are queued already, in their order.

    Raises:
        asyncio.CancelledError: the caller has given up; what is not stepped yet never will be.
    """
    try:
        return [await _outcome(step) for step in submitted]
    except BaseException:
        for step in submitted:
            if isinstance(step, asyncio.Future):
                step.cancel()
        raise


async def _outcome(step: Submitted) -> Decision | InferenceError:
    if isinstance(step, InferenceError):
        return step
    try:
        return await step
    except (InferenceError, HiddenStateError) as error:
        return refusal_of(error)
