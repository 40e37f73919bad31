"""Bodies of Variant B, as the contract words them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, with_config
from typing_extensions import TypedDict

from models.flow.window import FEATURES, HORIZON, WINDOW
from models.junctions import JUNCTIONS

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
