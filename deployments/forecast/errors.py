"""What a forecast can be refused for. ``str(error)`` is the answer's ``detail``.

ForecastError
├── InvalidRequestError         400
├── UnknownJunctionError        404
├── PredictionFailedError       500
├── ModelNotLoadedError         503
└── OverloadedError             503, with Retry-After
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class ForecastError(Exception):
    """A request that gets no forecast."""

    status: ClassVar[int] = 500
    retry_after_s: ClassVar[int | None] = None


class InvalidRequestError(ForecastError):
    status = 400


class UnknownJunctionError(ForecastError):
    status = 404

    def __init__(self, junction_id: str, known: Iterable[str]) -> None:
        super().__init__(f"Unknown junction '{junction_id[:100]}'. Known: {list(known)}")


class PredictionFailedError(ForecastError):
    status = 500

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"Prediction error: {cause}")


class ModelNotLoadedError(ForecastError):
    status = 503

    def __init__(self) -> None:
        super().__init__("Model not loaded")


class OverloadedError(ForecastError):
    status = 503
    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__("Too many requests are waiting")
