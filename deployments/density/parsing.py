"""From the bytes of a prediction request to its (3, 5) densities, or to the contract's error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from deployments.forecast.errors import InvalidRequestError
from models.density.forecast import N_EDGES, N_HOURS

SHAPE = (N_HOURS, N_EDGES)


def parse_densities(body: bytes) -> NDArray[np.float64]:
    """Read ``{"data": …}``.

    Raises:
        InvalidRequestError: not JSON, no data, another shape, or not finite numbers.
    """
    try:
        request = from_json(body, allow_inf_nan=True)
    except ValueError as error:
        raise InvalidRequestError(f"The body is not valid JSON: {error}") from None
    if not isinstance(request, dict):
        raise InvalidRequestError("The body must be a JSON object with the field data")
    data = request.get("data")
    if data is None:
        raise InvalidRequestError(f"data is required: Expected shape {SHAPE}, got nothing")
    shape = _shape_of(data)
    if shape != SHAPE:
        found = "ragged rows" if shape is None else shape
        raise InvalidRequestError(f"Expected shape {SHAPE}, got {found}")
    for hour, row in enumerate(data):
        for edge, value in enumerate(row):
            if not _is_finite_number(value):
                raise InvalidRequestError(f"data[{hour}][{edge}] must be a finite number")
    return np.array(data, np.float64)


def _shape_of(data: Any) -> tuple[int, ...] | None:
    """Return the shape that NumPy would see, None when rows differ in length or depth."""
    if not isinstance(data, list):
        return ()
    shapes = {_shape_of(each) for each in data} or {()}
    inner = shapes.pop()
    return None if shapes or inner is None else (len(data), *inner)


def _is_finite_number(value: Any) -> bool:
    # by type: a boolean is an int to Python, but no number in JSON
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and abs(value) < 2**1000
