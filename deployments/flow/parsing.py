"""From the bytes of a forecast request to the window that the model reads, or to an error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import TypeAdapter, ValidationError

from deployments.flow.schemas import ForecastRequest, Sample
from deployments.forecast.errors import InvalidRequestError, UnknownJunctionError
from models.flow.window import WINDOW, Window, make_window
from models.junctions import JUNCTIONS

CLOCK_SKEW_S = 300  # how far ahead of ours the clock of a controller may be

_REQUEST = TypeAdapter(ForecastRequest)


@dataclass(frozen=True, slots=True)
class FlowQuestion:
    """One valid request.

    Attributes:
        newest: timestamp of the newest sample, seconds.
    """

    junction_id: str
    newest: int
    window: Window


def parse_question(body: bytes, now_s: float) -> FlowQuestion:
    """Read and check a forecast request.

    Args:
        now_s: seconds since the epoch.

    Raises:
        InvalidRequestError: not JSON, of another form, no samples, timestamps out of order or in
            the future.
        UnknownJunctionError: not one of the five.
    """
    try:
        request = _REQUEST.validate_json(body)
    except ValidationError as error:
        raise InvalidRequestError(_first_fault(error)) from None
    junction_id, samples = request["junction_id"], request["historical_data"]
    if junction_id not in JUNCTIONS:
        raise UnknownJunctionError(junction_id, JUNCTIONS)
    if not samples:
        raise InvalidRequestError("historical_data is empty, at least one sample is needed")
    timestamps = np.array([sample["timestamp"] for sample in samples], np.int64)
    _check_order(timestamps)
    if timestamps[-1] > now_s + CLOCK_SKEW_S:
        last = len(timestamps) - 1
        raise InvalidRequestError(
            f"timestamps must not be in the future: historical_data[{last}] has {timestamps[-1]}"
        )
    features = np.array([_features(sample) for sample in samples[-WINDOW:]])
    return FlowQuestion(junction_id, int(timestamps[-1]), make_window(timestamps, features))


def _features(sample: Sample) -> tuple[float, float, float]:
    return sample["vehicle_count"], sample["avg_speed"], sample["occupancy"]


def _check_order(timestamps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    steps = np.diff(timestamps)
    if len(steps) and steps.min() <= 0:
        late = int((steps <= 0).argmax()) + 1
        raise InvalidRequestError(
            f"timestamps must strictly increase: historical_data[{late}] has {timestamps[late]} "
            f"after {timestamps[late - 1]}"
        )


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if fault["type"] == "json_invalid":
        return f"The body is not valid JSON: {fault['msg']}"
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in fault["loc"])
    return f"{place.removeprefix('.') or 'body'}: {fault['msg']}"
