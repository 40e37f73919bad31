"""Errors of the inference service, with the messages of the contract."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from deployments.http.errors import Code, RefusedError
from deployments.inference.policy_model import NonFiniteStateError
from deployments.inference.schemas import MAX_NAMED
from deployments.stateful.errors import (
    KeyReusedError,
    NotBegunError,
    OutcomeUnknownError,
    StateError,
    TooManyStatesError,
)
from deployments.stateful.row import RECEIPTS
from models.networks.network import Network

logger = logging.getLogger("ray.serve")

T = TypeVar("T")


class InferenceError(RefusedError):
    """A request that is refused; ``str(error)`` is the ``detail`` of the response.

    Hidden states are as they were, unless the code is ``outcome_unknown``.
    """

    def __init__(
        self, status: int, message: str, code: Code | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message, status, code, retry_after_s)


class InvalidBodyError(InferenceError):
    """The body does not have the documented form.

    Attributes:
        faults: as FastAPI reports them, without the input, which may hold NaN or megabytes.
    """

    def __init__(self, faults: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(422, "The body does not have the documented form")
        self.faults = [
            {"type": fault["type"], "loc": ["body", *fault["loc"]], "msg": fault["msg"]}
            for fault in faults
        ]


def unknown_junction(junction_id: str, network: Network) -> InferenceError:
    few = network.n_agents <= MAX_NAMED
    known = list(network.ids) if few else f"the {network.n_agents} of GET /model_info"
    return InferenceError(404, f"Unknown junction '{junction_id[:100]}'. Known: {known}")


def too_many_keys() -> InferenceError:
    """Return the error for more keys of one junction than a state remembers."""
    return InferenceError(
        422,
        f"A request may have at most {RECEIPTS} items with a key for one junction;"
        " send the others in another request",
    )


def model_not_loaded() -> InferenceError:
    return InferenceError(503, "Model not loaded", "model_not_loaded")


def refusal_of(error: Exception) -> InferenceError:
    """Return the error for the client of what has failed; log a defect."""
    match error:
        case InferenceError():
            return error
        case NonFiniteStateError():
            return InferenceError(422, str(error))
        case KeyReusedError():
            return InferenceError(422, str(error), "key_reused")
        case NotBegunError():
            return InferenceError(400, str(error))
        case OutcomeUnknownError():
            return InferenceError(503, str(error), "outcome_unknown", 1)
        case TooManyStatesError():
            return InferenceError(503, str(error), "too_many_states", error.retry_after_s)
        case StateError():
            return InferenceError(503, str(error), "overloaded", 1)
        case _:
            logger.error("A request failed", exc_info=error)
            return InferenceError(500, "Internal Server Error", "outcome_unknown")


async def or_refusal(work: Awaitable[T]) -> T:
    """Return what an operation of the engine returns.

    Raises:
        InferenceError: the operation failed.
    """
    try:
        return await work
    except Exception as error:  # a StateError, or a defect
        raise refusal_of(error) from error


def first_fault(error: ValidationError, whole: str) -> str:
    """Return the place of the first fault, and what it is.

    Args:
        whole: name of all that was validated.
    """
    first = faults_in(error)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


def faults_in(error: ValidationError) -> list[Any]:
    return error.errors(include_url=False, include_input=False, include_context=False)
