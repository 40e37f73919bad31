"""Bodies of Variant A, as the contract words them."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from pydantic_core import from_json

from deployments.http.docs import declared_body
from deployments.http.errors import RefusedError
from models.density.forecast import N_EDGES, N_HOURS

_EXAMPLE = {
    "data": [
        [16.9, 11.2, 12.6, 8.8, 9.1],
        [33.0, 24.6, 32.6, 17.4, 17.4],
        [43.7, 25.2, 32.7, 18.3, 18.3],
    ]
}

# for the OpenAPI document only: requests are read straight from the bytes
PREDICTION_REQUEST = declared_body(
    schema={
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
    example=_EXAMPLE,
)


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


SHAPE = (N_HOURS, N_EDGES)


def parse_densities(body: bytes) -> NDArray[np.float64]:
    """Read ``{"data": …}``.

    Raises:
        RefusedError: not JSON, no data, another shape, or numbers that are not finite.
    """
    try:
        request = from_json(body, allow_inf_nan=True)
    except ValueError as error:
        raise RefusedError(f"The body is not valid JSON: {error}", 400) from None
    if not isinstance(request, dict):
        raise RefusedError("The body must be a JSON object with the field data", 400)
    data = request.get("data")
    if data is None:
        raise RefusedError(f"data is required: Expected shape {SHAPE}, got nothing", 400)
    shape = _shape_of(data)
    if shape != SHAPE:
        found = "ragged rows" if shape is None else shape
        raise RefusedError(f"Expected shape {SHAPE}, got {found}", 400)
    for hour, row in enumerate(data):
        for edge, value in enumerate(row):
            if not _is_finite_number(value):
                raise RefusedError(f"data[{hour}][{edge}] must be a finite number", 400)
    return np.array(data, np.float64)


def _shape_of(data: Any) -> tuple[int, ...] | None:
    """Return the shape as NumPy's; None when rows differ in length or depth."""
    if not isinstance(data, list):
        return ()
    shapes = {_shape_of(each) for each in data} or {()}
    inner = shapes.pop()
    return None if shapes or inner is None else (len(data), *inner)


def _is_finite_number(value: Any) -> bool:
    # by type: a boolean is an int in Python, but not a number in JSON
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and abs(value) < 2**1000
