"""Variant B without HTTP and without Ray: what each route does."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deployments.flow.parsing import FlowQuestion, parse_question
from deployments.flow.schemas import Health, ModelInfo
from deployments.forecast.batcher import Batcher
from deployments.forecast.counts import ForecastCounts
from deployments.forecast.errors import ModelNotLoadedError
from deployments.forecast.model_slot import ModelSlot
from models.flow.window import FEATURES, HORIZON, MINUTE_S, WINDOW

if TYPE_CHECKING:
    from models.flow.forecast import FlowForecaster


class FlowAnswer(NamedTuple):
    """Vehicles per minute and the probability that they are within their tolerance."""

    flow: int
    confidence: float


class _Inputs(NamedTuple):
    windows: NDArray[np.float64]  # (B, 60, 3)
    rows: NDArray[np.int64]  # (B,)


class FlowService:
    """Validates, forecasts in batches, and tells about itself."""

    def __init__(self) -> None:
        self.slot = ModelSlot(_read)
        self.counts = ForecastCounts(self._drift)
        self._batcher = Batcher(self._run)

    async def forecast(self, body: bytes) -> bytes:
        """Answer a forecast request.

        Raises:
            ForecastError: with the status and the detail of the answer.
        """
        question = parse_question(body, time.time())
        if self.slot.model is None:
            raise ModelNotLoadedError
        answer = await self._batcher.submit(question)
        return json.dumps(
            {
                "junction_id": question.junction_id,
                "forecast_timestamp": question.newest + HORIZON * MINUTE_S,
                "predicted_flow": answer.flow,
                "confidence": answer.confidence,
                "status": "success",
                "timestamp": _now_ms(),
            }
        ).encode()

    def _run(self, batch: list[FlowQuestion]) -> list[FlowAnswer]:
        model = self.slot.model
        if model is None:
            raise ModelNotLoadedError
        started = time.perf_counter()
        windows = np.stack([question.window.features for question in batch])
        rows = np.array([model.rows[question.junction_id] for question in batch])
        observed = np.array([question.window.observed for question in batch])
        forecasts = model(windows, rows, observed)
        self.counts.batch(len(batch), time.perf_counter() - started, _Inputs(windows, rows))
        self.counts.predictions.update(question.junction_id for question in batch)
        flows, confidences = forecasts.flows.tolist(), forecasts.confidences.round(4).tolist()
        return [FlowAnswer(round(f), c) for f, c in zip(flows, confidences, strict=True)]

    def _drift(self, inputs: list[_Inputs]) -> Mapping[str, float]:
        model = self.slot.model
        if model is None:
            return {}
        windows = np.concatenate([each.windows for each in inputs])
        rows = np.concatenate([each.rows for each in inputs])
        low, high = model.low[rows, None], model.high[rows, None]
        outside = ((windows < low) | (windows > high)).mean(axis=(0, 1))
        return dict(zip(FEATURES, outside.tolist(), strict=True))

    def health(self) -> Health:
        model = self.slot.model
        return Health(
            status="healthy" if model else "unhealthy",
            model_loaded=model is not None,
            model_version=model.card.version if model else "none",
            timestamp=_now_ms(),
        )

    def model_info(self) -> ModelInfo:
        model = self.slot.model
        return ModelInfo(
            model_version=model.card.version if model else "none",
            target_accuracy=model.target_accuracy if model else "none",
            trained_on_junctions=list(model.rows) if model else [],
        )


def _read(path: Path) -> FlowForecaster:
    import torch  # two seconds, which only a replica shall spend

    from models.flow.forecast import FlowForecaster

    torch.set_num_threads(1)  # replicas are the unit of parallelism; a batch is too small to split
    forecaster = FlowForecaster.load(path)
    # the first call of a process is slow; no request shall wait for it
    empty = np.zeros((1, WINDOW, len(FEATURES)))
    forecaster(empty, np.array([0]), np.array([WINDOW]))
    return forecaster


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
