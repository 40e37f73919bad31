"""Errors of the inference service, with the messages of the contract.

InferenceError
├── UnknownJunctionError        404
├── TooManyValuesError          400
├── InvalidRunError             400
├── InvalidKeyError             400
├── InvalidBodyError            422
├── InvalidQueryError           422
├── InvalidItemError            422
├── TooManyKeysError            422
├── ModelNotLoadedError         503
└── EngineError                 400, 422, 500, or 503 with Retry-After
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from deployments.http.errors import Code, RefusedError
from deployments.http.messages import NOT_A_KEY, RUN_HEADER
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


class InferenceError(RefusedError):
    """Base of the errors; ``str(error)`` is the ``detail`` of the response.

    Hidden states are as they were, unless the code is ``outcome_unknown``.
    """


class UnknownJunctionError(InferenceError):
    status = 404

    def __init__(self, junction_id: str, network: Network) -> None:
        few = network.n_agents <= MAX_NAMED
        known = list(network.ids) if few else f"the {network.n_agents} of GET /model_info"
        super().__init__(f"Unknown junction '{junction_id[:100]}'. Known: {known}")


class TooManyValuesError(InferenceError):
    status = 400

    def __init__(self, n_values: int, network: Network) -> None:
        super().__init__(f"obs_data has {n_values} values, expected <= {network.max_obs}")


class InvalidRunError(InferenceError):
    status = 400


class InvalidKeyError(InferenceError):
    status = 400

    def __init__(self) -> None:
        super().__init__(NOT_A_KEY)


class InvalidBodyError(InferenceError):
    """The body does not have the documented form.

    Attributes:
        faults: as FastAPI reports them, without the input, which may hold NaN or megabytes.
    """

    status = 422

    def __init__(self, error: ValidationError) -> None:
        super().__init__("The body does not have the documented form")
        self.faults = [
            {"type": fault["type"], "loc": ["body", *fault["loc"]], "msg": fault["msg"]}
            for fault in _faults(error)
        ]


class InvalidQueryError(InferenceError):
    """A reset names a run where none is read, and would clear another one."""

    status = 422

    def __init__(self) -> None:
        super().__init__(
            f"A reset takes no query. Name the run in the header {RUN_HEADER} or as run_id in the"
            " body"
        )


class TooManyKeysError(InferenceError):
    """A state remembers too few receipts to recognise all keys of a repeated request."""

    status = 422

    def __init__(self) -> None:
        super().__init__(
            f"A request may have at most {RECEIPTS} items with a key for one junction;"
            " send the others in another request"
        )


class InvalidItemError(InferenceError):
    """One of several items does not have the documented form; the others are not affected."""

    status = 422

    def __init__(self, error: ValidationError) -> None:
        super().__init__(first_fault(error, "item"))


class ModelNotLoadedError(InferenceError):
    status = 503
    code = "model_not_loaded"

    def __init__(self) -> None:
        super().__init__("Model not loaded")


class EngineError(InferenceError):
    """What the engine of hidden states has refused or failed at."""

    def __init__(
        self, message: str, status: int, code: Code | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after_s = status, code, retry_after_s


def refusal_of(error: Exception) -> InferenceError:
    """Return the error for the client of what has failed; log a defect."""
    match error:
        case InferenceError():
            return error
        case NonFiniteStateError():
            return EngineError(str(error), 422)
        case KeyReusedError():
            return EngineError(str(error), 422, "key_reused")
        case NotBegunError():
            return EngineError(str(error), 400)
        case OutcomeUnknownError():
            return EngineError(str(error), 503, "outcome_unknown", 1)
        case TooManyStatesError():
            return EngineError(str(error), 503, "too_many_states", error.retry_after_s)
        case StateError():
            return EngineError(str(error), 503, "overloaded", 1)
        case _:
            logger.error("A request failed", exc_info=error)
            return EngineError("Internal Server Error", 500, "outcome_unknown")


def first_fault(error: ValidationError, whole: str) -> str:
    """Return the place of the first fault, and what it is.

    Args:
        whole: name of all that was validated.
    """
    first = _faults(error)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


def _faults(error: ValidationError) -> list[Any]:
    return error.errors(include_url=False, include_input=False, include_context=False)
