"""What a prediction can be refused for, as the contract words it.

InferenceError
├── UnknownJunctionError        404
├── TooManyValuesError          400
├── InvalidRunError             400
├── TooLargeValuesError         422
├── ModelNotLoadedError         503
└── OverloadedError             503, with Retry-After
"""

from __future__ import annotations

from typing import ClassVar

from deployments.inference.protocol import HiddenStateError, NonFiniteStateError
from models.junctions import JUNCTIONS, MAX_OBS


class InferenceError(Exception):
    """A refusal that leaves every hidden state as it was; ``str(error)`` is the ``detail``."""

    status: ClassVar[int] = 500
    retry_after_s: ClassVar[int | None] = None


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


class TooLargeValuesError(InferenceError):
    status = 422


class ModelNotLoadedError(InferenceError):
    status = 503

    def __init__(self) -> None:
        super().__init__("Model not loaded")


class OverloadedError(InferenceError):
    """Too many requests wait, too many states are kept, or a state is not reached in time."""

    status = 503
    retry_after_s = 1


def refusal_of(error: InferenceError | HiddenStateError) -> InferenceError:
    """Return what a client is told of an error that a step or a reset has met."""
    match error:
        case InferenceError():
            return error
        case NonFiniteStateError():
            return TooLargeValuesError(str(error))
        case _:
            return OverloadedError(str(error))
