"""Bodies of Variant B, as the contract words them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict

from deployments.http.errors import RefusedError
from models.flow.window import FEATURES, HORIZON, WINDOW, Window, make_window
from models.networks.shipped import JUNCTIONS

_LAST_SECOND = 253_402_300_799  # of the year 9999; milliseconds by mistake are beyond it
_EXAMPLE: dict[str, Any] = {
    "junction_id": "300839359",
    "historical_data": [
        {
            "timestamp": 1774000000 + 60 * n,
            "vehicle_count": 24 + n,
            "avg_speed": 34.5,
            "occupancy": 0.06,
        }
        for n in range(3)
    ],
}


# Typed dictionaries: an object per sample would cost more than the forecast.
@with_config(ConfigDict(strict=True))
class Sample(TypedDict):
    timestamp: Annotated[
        int, Field(ge=0, le=_LAST_SECOND, description="Seconds; strictly increasing.")
    ]
    vehicle_count: Annotated[
        int,
        Field(
            ge=0, le=1_000_000, description="Vehicles that crossed the stop lines in the minute."
        ),
    ]
    avg_speed: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="Mean speed on the approaches, km/h.")
    ]
    occupancy: Annotated[
        float,
        Field(ge=0, le=1, description="Share of the approaches' length under vehicles, 0 to 1."),
    ]


@with_config(ConfigDict(strict=True, json_schema_extra={"example": _EXAMPLE}))
class ForecastRequest(TypedDict):
    junction_id: Annotated[str, Field(description=f"One of {', '.join(JUNCTIONS)}.")]
    historical_data: Annotated[
        list[Sample],
        FailFast(),
        Field(description=f"One sample a minute, at least one; the newest {WINDOW} count."),
    ]


class Forecast(BaseModel):
    junction_id: str
    forecast_timestamp: int = Field(description="Seconds: newest sample + 900.")
    predicted_flow: int = Field(
        description=f"Vehicles per minute, mean of the {HORIZON} minutes after the newest sample."
    )
    confidence: float = Field(
        ge=0, le=1, description="Probability that the forecast is within its tolerance."
    )
    status: Literal["success"] = "success"
    timestamp: int = Field(description="Milliseconds since the epoch, when the answer was made.")


class Health(BaseModel):
    status: Literal["healthy", "unhealthy"]
    model_loaded: bool
    model_version: str = Field(description="`none` without a model.")
    forecast_horizon: int = HORIZON
    timestamp: int
    detail: str | None = Field(
        None,
        description="Why no model is served; beside `healthy`, why the newest file is not served "
        "and the model before it stays in service.",
    )


class ModelInfo(BaseModel):
    model_type: str = "LSTM"
    model_version: str
    input_features: int = len(FEATURES)
    input_window: int = WINDOW
    output_window: int = HORIZON
    target_accuracy: str
    trained_on_junctions: list[str]


CLOCK_SKEW_S = 300  # by which the clock of a controller may be ahead

_REQUEST = TypeAdapter(ForecastRequest)


@dataclass(frozen=True, slots=True)
class FlowQuestion:
    """A valid request.

    Attributes:
        newest: timestamp of the newest sample, in seconds.
    """

    junction_id: str
    newest: int
    window: Window


def parse_question(body: bytes, now_s: float) -> FlowQuestion:
    """Read and check a forecast request.

    Args:
        now_s: seconds since the epoch.

    Raises:
        RefusedError: 400 for what is not JSON, another form, no samples, or timestamps out of order
            or in the future; 404 for a junction that is not one of the five.
    """
    try:
        request = _REQUEST.validate_json(body)
    except ValidationError as error:
        raise RefusedError(_first_fault(error), 400) from None
    junction_id, samples = request["junction_id"], request["historical_data"]
    if junction_id not in JUNCTIONS:
        known = list(JUNCTIONS)
        raise RefusedError(f"Unknown junction '{junction_id[:100]}'. Known: {known}", 404)
    if not samples:
        raise RefusedError("historical_data is empty, at least one sample is needed", 400)
    timestamps = np.array([sample["timestamp"] for sample in samples], np.int64)
    _check_order(timestamps)
    if timestamps[-1] > now_s + CLOCK_SKEW_S:
        last = len(timestamps) - 1
        raise RefusedError(
            f"timestamps must not be in the future: historical_data[{last}] has {timestamps[-1]}",
            400,
        )
    features = np.array([_features(sample) for sample in samples[-WINDOW:]])
    return FlowQuestion(junction_id, int(timestamps[-1]), make_window(timestamps, features))


def _features(sample: Sample) -> tuple[float, float, float]:
    return sample["vehicle_count"], sample["avg_speed"], sample["occupancy"]


def _check_order(timestamps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    steps = np.diff(timestamps)
    if len(steps) and steps.min() <= 0:
        late = int((steps <= 0).argmax()) + 1
        raise RefusedError(
            f"timestamps must strictly increase: historical_data[{late}] has {timestamps[late]} "
            f"after {timestamps[late - 1]}",
            400,
        )


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if fault["type"] == "json_invalid":
        return f"The body is not valid JSON: {fault['msg']}"
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in fault["loc"])
    return f"{place.removeprefix('.') or 'body'}: {fault['msg']}"
