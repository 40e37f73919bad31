"""Variant A without HTTP and without Ray: what each route does."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deployments.density.parsing import SHAPE, parse_densities
from deployments.density.schemas import Health, ModelInfo
from deployments.forecast.batcher import Batcher
from deployments.forecast.counts import ForecastCounts
from deployments.forecast.errors import ModelNotLoadedError
from deployments.forecast.model_slot import ModelSlot
from models.density.forecast import DensityForecaster

_DESCRIPTION = (
    "Density of the 5 most congested edges in the next hour, in vehicles per kilometre, "
    "from the last 3 hours"
)

Floats = NDArray[np.float64]


class _Served(NamedTuple):
    forecaster: DensityForecaster
    edge_ids: str  # the same JSON in every answer


class DensityService:
    """Validates, forecasts in batches, and tells about itself."""

    def __init__(self) -> None:
        self.slot = ModelSlot(_read)
        self.counts = ForecastCounts(self._drift)
        self._batcher = Batcher(self._run)

    async def predict(self, body: bytes) -> bytes:
        """Answer a prediction request.

        Raises:
            ForecastError: with the status and the detail of the answer.
        """
        densities = parse_densities(body)
        if self.slot.model is None:
            raise ModelNotLoadedError
        return await self._batcher.submit(densities)

    def _run(self, batch: list[Floats]) -> list[bytes]:
        if self.slot.model is None:
            raise ModelNotLoadedError
        forecaster, edge_ids = self.slot.model
        started = time.perf_counter()
        inputs = np.stack(batch)
        forecasts = forecaster(inputs).tolist()
        self.counts.batch(len(batch), time.perf_counter() - started, inputs)
        self.counts.predictions["all"] += len(batch)
        # in Python: NumPy rounds by a product, which overflows at the upper end of float64
        rows = [[round(density, 4) for density in row] for row in forecasts]
        return [f'{{"prediction":{row},"edge_ids":{edge_ids}}}'.encode() for row in rows]

    def _drift(self, inputs: list[Floats]) -> Mapping[str, float]:
        if self.slot.model is None:
            return {}
        model = self.slot.model.forecaster
        values = np.concatenate(inputs)
        outside = ((values < model.low) | (values > model.high)).mean(axis=(0, 1))
        return dict(zip(model.edges, outside.tolist(), strict=True))

    def health(self) -> Health:
        if self.slot.model is None:
            return Health(status="unhealthy", message="Model not loaded")
        return Health(status="healthy", message="Model loaded and ready")

    def model_info(self) -> ModelInfo:
        if self.slot.model is None:
            return ModelInfo(description=_DESCRIPTION, edges=[], test_loss=None, test_mae=None)
        model = self.slot.model.forecaster
        return ModelInfo(
            description=_DESCRIPTION,
            edges=list(model.edges),
            test_loss=model.card.test_loss,
            test_mae=model.card.test_mae,
        )


def _read(path: Path) -> _Served:
    forecaster = DensityForecaster.load(path)
    forecaster(
        np.zeros((1, *SHAPE))
    )  # the first call of a process is slow; no request shall wait for it
    return _Served(forecaster, json.dumps(forecaster.edges))
