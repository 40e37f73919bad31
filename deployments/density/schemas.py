"""Bodies of Variant A, as the contract words them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from models.density.forecast import N_EDGES, N_HOURS

_EXAMPLE = {
    "data": [
        [16.9, 11.2, 12.6, 8.8, 9.1],
        [33.0, 24.6, 32.6, 17.4, 17.4],
        [43.7, 25.2, 32.7, 18.3, 18.3],
    ]
}

# What is read straight from the bytes; only the OpenAPI document needs it.
PREDICTION_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["data"],
                    "properties": {
                        "data": {
                            "description": "Density of each edge in vehicles per kilometre, "
                            "hourly, oldest hour first; edges as `GET /model-info` orders them.",
                            "type": "array",
                            "minItems": N_HOURS,
                            "maxItems": N_HOURS,
                            "items": {
                                "type": "array",
                                "minItems": N_EDGES,
                                "maxItems": N_EDGES,
                                "items": {"type": "number"},
                            },
                        }
                    },
                },
                "example": _EXAMPLE,
            }
        },
    }
}


class Prediction(BaseModel):
    prediction: list[float] = Field(
        description="Density of each edge in the next hour, vehicles per kilometre."
    )
    edge_ids: list[str]


class Health(BaseModel):
    status: Literal["healthy", "unhealthy"]
    message: str


class ModelInfo(BaseModel):
    model_type: str = "LSTM"
    input_shape: list[int] = [N_HOURS, N_EDGES]
    output_shape: list[int] = [N_EDGES]
    description: str
    edges: list[str]
    test_loss: float | None = Field(
        description="Mean absolute error on the test days, in standard deviations."
    )
    test_mae: float | None = Field(
        description="Mean absolute error on the test days, vehicles per kilometre."
    )
