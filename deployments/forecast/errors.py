"""Refusals of forecasts; ``str(error)`` is the ``detail`` of the response."""

from __future__ import annotations

from collections.abc import Iterable

from deployments.http.errors import RefusedError


class InvalidRequestError(RefusedError):
    status = 400


class UnknownJunctionError(RefusedError):
    status = 404

    def __init__(self, junction_id: str, known: Iterable[str]) -> None:
        super().__init__(f"Unknown junction '{junction_id[:100]}'. Known: {list(known)}")


class PredictionFailedError(RefusedError):
    status = 500

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"Prediction error: {cause}")


class ModelNotLoadedError(RefusedError):
    status = 503
    code = "model_not_loaded"

    def __init__(self) -> None:
        super().__init__("Model not loaded")
