"""What a prediction can be refused for, as the contract words it.

InferenceError
├── UnknownJunctionError        404
├── TooManyValuesError          400
├── InvalidRunError             400
├── InvalidKeyError             400
├── InvalidBodyError            422
├── InvalidItemError            422
├── TooLargeValuesError         422
├── KeyConflictError            422
├── ModelNotLoadedError         503
├── StateUnavailableError       503, with Retry-After
│   └── NoPlaceError            503, with Retry-After
└── UnconfirmedError            503, with Retry-After
    └── DefectError             500
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from deployments.http.errors import Code, RefusedError
from deployments.http.names import NOT_A_KEY
from deployments.stateful.protocol import (
    HiddenStateError,
    KeyReusedError,
    NonFiniteStateError,
    OutcomeUnknownError,
    TooManyStatesError,
)
from models.junctions import SHIPPED
from models.networks.network import Network

logger = logging.getLogger("ray.serve")

_MAX_NAMED = 50


class InferenceError(RefusedError):
    """A refusal that leaves every hidden state as it was, unless it is an UnconfirmedError.

    ``str(error)`` is the ``detail``.
    """


class UnknownJunctionError(InferenceError):
    status = 404

    def __init__(self, junction_id: str, network: Network = SHIPPED) -> None:
        few = network.n_agents <= _MAX_NAMED
        known = list(network.ids) if few else f"the {network.n_agents} of GET /model_info"
        super().__init__(f"Unknown junction '{junction_id[:100]}'. Known: {known}")


class TooManyValuesError(InferenceError):
    status = 400

    def __init__(self, n_values: int, network: Network = SHIPPED) -> None:
        super().__init__(f"obs_data has {n_values} values, expected <= {network.max_obs}")


class InvalidRunError(InferenceError):
    status = 400


class InvalidKeyError(InferenceError):
    status = 400

    def __init__(self) -> None:
        super().__init__(NOT_A_KEY)


class InvalidBodyError(InferenceError):
    """A body is not of its form.

    Attributes:
        faults: as FastAPI tells of them, without the input: that may hold NaN, or megabytes.
    """

    status = 422

    def __init__(self, error: ValidationError) -> None:
        super().__init__("The body is not of its form")
        self.faults = [
            {"type": fault["type"], "loc": ["body", *fault["loc"]], "msg": fault["msg"]}
            for fault in _faults(error)
        ]


class InvalidItemError(InferenceError):
    """An item of several is not of its form; the others are not concerned."""

    status = 422

    def __init__(self, error: ValidationError) -> None:
        first = _faults(error)[0]
        where = ".".join(map(str, first["loc"])) or "item"
        super().__init__(f"{where}: {first['msg']}")


class TooLargeValuesError(InferenceError):
    status = 422


class KeyConflictError(InferenceError):
    """The idempotency key is that of a step with another observation."""

    status = 422
    code = "key_reused"


class ModelNotLoadedError(InferenceError):
    status = 503
    code = "model_not_loaded"

    def __init__(self) -> None:
        super().__init__("Model not loaded")


class StateUnavailableError(InferenceError):
    """A state is not reached in time."""

    status = 503
    retry_after_s = 1
    code: Code | None = "overloaded"


class NoPlaceError(StateUnavailableError):
    """As many states are kept as may be, and this one would be new."""

    code = "too_many_states"

    def __init__(self, error: TooManyStatesError) -> None:
        super().__init__(str(error))
        self.retry_after_s = error.retry_after_s


class UnconfirmedError(InferenceError):
    """Nobody knows whether the states are as they were; with its key, a step can be repeated."""

    status = 503
    retry_after_s: int | None = 1
    code = "outcome_unknown"


class DefectError(UnconfirmedError):
    """Something went wrong that never should; its step may have been made before."""

    status = 500
    retry_after_s = None

    def __init__(self) -> None:
        super().__init__("Internal Server Error")


def refusal_of(error: Exception) -> InferenceError:
    """Return what a client is told of an error that a step or a reset has met; log a defect."""
    match error:
        case InferenceError():
            return error
        case NonFiniteStateError():
            return TooLargeValuesError(str(error))
        case KeyReusedError():
            return KeyConflictError(str(error))
        case OutcomeUnknownError():
            return UnconfirmedError(str(error))
        case TooManyStatesError():
            return NoPlaceError(error)
        case HiddenStateError():
            return StateUnavailableError(str(error))
        case _:
            logger.error("A request failed", exc_info=error)
            return DefectError()


def _faults(error: ValidationError) -> list[Any]:
    return error.errors(include_url=False, include_input=False, include_context=False)
