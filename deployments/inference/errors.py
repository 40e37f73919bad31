"""What a prediction can be refused for, as the contract words it.

InferenceError
├── UnknownJunctionError        404
├── TooManyValuesError          400
├── InvalidRunError             400
├── InvalidBodyError            422
├── InvalidItemError            422
├── TooLargeValuesError         422
├── ModelNotLoadedError         503
└── StateUnavailableError       503, with Retry-After
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from deployments.http.errors import RefusedError
from deployments.inference.protocol import HiddenStateError, NonFiniteStateError
from models.junctions import JUNCTIONS, MAX_OBS


class InferenceError(RefusedError):
    """A refusal that leaves every hidden state as it was; ``str(error)`` is the ``detail``."""


class UnknownJunctionError(InferenceError):
    status = 404

    def __init__(self, junction_id: str) -> None:
        super().__init__(f"Unknown junction '{junction_id[:100]}'. Known: {list(JUNCTIONS)}")


class TooManyValuesError(InferenceError):
    status = 400

    def __init__(self, n_values: int) -> None:
        super().__init__(f"obs_data has {n_values} values, expected <= {MAX_OBS}")


class InvalidRunError(InferenceError):
    status = 400


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


class ModelNotLoadedError(InferenceError):
    status = 503
    code = "model_not_loaded"

    def __init__(self) -> None:
        super().__init__("Model not loaded")


class StateUnavailableError(InferenceError):
    """Too many states are kept, or a state is not reached in time."""

    status = 503
    retry_after_s = 1
    code = "overloaded"


def refusal_of(error: InferenceError | HiddenStateError) -> InferenceError:
    """Return what a client is told of an error that a step or a reset has met."""
    match error:
        case InferenceError():
            return error
        case NonFiniteStateError():
            return TooLargeValuesError(str(error))
        case _:
            return StateUnavailableError(str(error))


def _faults(error: ValidationError) -> list[Any]:
    return error.errors(include_url=False, include_input=False, include_context=False)
