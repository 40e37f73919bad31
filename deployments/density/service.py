"""Variant A without HTTP and Ray: what each route does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deployments.density.schemas import (
    PREDICTION_REQUEST,
    SHAPE,
    Health,
    ModelInfo,
    Prediction,
    parse_densities,
)
from deployments.forecast.api import declared_errors
from deployments.forecast.service import ForecastService
from models.density.forecast import DensityForecaster

_DESCRIPTION = (
    "Density of the 5 most congested edges in the next hour, in vehicles per kilometre, "
    "from the last 3 hours"
)

Floats = NDArray[np.float64]


class _Served(NamedTuple):
    forecaster: DensityForecaster
    edge_ids: str  # the same JSON in every answer


class DensityService(ForecastService[_Served, Floats, Floats, list[list[float]]]):
    """Variant A: a question is an array of (3, 5) densities."""

    name = "density"
    description = (
        "Traffic density of five road edges in the next hour, from three hourly measurements."
    )
    path, info_path = "/predict", "/model-info"
    info_description = "The model's shapes, edges, and errors on held-out days."
    max_body = 64 * 1024  # fifteen numbers
    operation: ClassVar = {
        "name": "predict",
        "summary": "Density of the next hour",
        "description": "Forecast the next hour of five edges from their last three hours.",
        "response_model": Prediction,
        "responses": declared_errors(400, 408, 413, 500, 503),
        "openapi_extra": PREDICTION_REQUEST,
    }
    counted_by, drift_of = "edges", "edge"

    @staticmethod
    def read(path: Path) -> _Served:
        forecaster = DensityForecaster.load(path)
        # the first call of a process is slow; no request must wait for it
        forecaster(np.zeros((1, *SHAPE)))
        return _Served(forecaster, json.dumps(forecaster.edges))

    def parse(self, body: bytes) -> Floats:
        return parse_densities(body)

    def forecast(self, model: _Served, questions: list[Floats]) -> tuple[Floats, list[list[float]]]:
        forecaster, _ = model
        inputs = np.stack(questions)
        return inputs, forecaster(inputs).tolist()

    def answers(
        self, model: _Served, questions: list[Floats], outputs: list[list[float]]
    ) -> list[bytes]:
        # in Python: NumPy rounds by a product, which overflows at the upper end of float64
        rows = [[round(density, 4) for density in row] for row in outputs]
        return [f'{{"prediction":{row},"edge_ids":{model.edge_ids}}}'.encode() for row in rows]

    def target(self, question: Floats) -> str:
        return "all"

    def drift(self, model: _Served, inputs: list[Floats]) -> Mapping[str, float]:
        forecaster = model.forecaster
        values = np.concatenate(inputs)
        outside = ((values < forecaster.low) | (values > forecaster.high)).mean(axis=(0, 1))
        return dict(zip(forecaster.edges, outside.tolist(), strict=True))

    async def health(self) -> Health:
        if self.slot.model is None:
            return Health(status="unhealthy", message="Model not loaded")
        message = "Model loaded and ready"
        if self.slot.problem is not None:
            message += f"; the newest file is not served: {self.slot.problem}"
        return Health(status="healthy", message=message)

    async def model_info(self) -> ModelInfo:
        if self.slot.model is None:
            return ModelInfo(description=_DESCRIPTION, edges=[], test_loss=None, test_mae=None)
        model = self.slot.model.forecaster
        return ModelInfo(
            description=_DESCRIPTION,
            edges=list(model.edges),
            test_loss=model.card.test_loss,
            test_mae=model.card.test_mae,
        )
