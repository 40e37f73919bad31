"""Variant B without HTTP and Ray: what each route does."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from deployments.feed.messages import FlowForecast
from deployments.flow.schemas import (
    FlowQuestion,
    Forecast,
    ForecastRequest,
    Health,
    ModelInfo,
    parse_question,
)
from deployments.forecast.api import declared_errors
from deployments.forecast.service import MAX_FORECASTS, ForecastService
from deployments.http.docs import declared_body
from deployments.http.messages import now_ms
from models.flow.forecast import FlowForecaster, FlowForecasts
from models.flow.window import FEATURES, HORIZON, MINUTE_S, WINDOW


def _request_body() -> dict[str, Any]:
    schema = TypeAdapter(ForecastRequest).json_schema()
    sample = schema.pop("$defs")["Sample"]
    schema["properties"]["historical_data"]["items"] = sample
    return declared_body(schema=schema)


class _Inputs(NamedTuple):
    windows: NDArray[np.float64]  # (B, 60, 3)
    rows: NDArray[np.int64]  # (B,)
    observed: NDArray[np.int64]  # (B,)


class FlowService(ForecastService[FlowForecaster, FlowQuestion, _Inputs, FlowForecasts]):
    """Variant B: a question is a window of one-minute samples at a junction."""

    name = "flow"
    description = (
        "Vehicle flow at a junction in the next 15 minutes, from one-minute measurements.\n\n"
        "Timestamps may be of any past time, as those of a simulation, but not of the future."
    )
    path, info_path = "/forecast", "/model_info"
    info_description = "The model's version, windows, junctions and accuracy."
    max_body = 1024 * 1024  # a week of samples fits, a million do not
    operation: ClassVar = {
        "name": "forecast",
        "summary": "Flow of the next 15 minutes",
        "description": "Forecast a junction's mean flow; gaps and short histories lower the "
        "confidence.",
        "response_model": Forecast,
        "responses": declared_errors(400, 404, 408, 413, 500, 503),
        "openapi_extra": _request_body(),
    }
    counted_by, drift_of = "junction", "feature"

    @staticmethod
    def read(path: Path) -> FlowForecaster:
        forecaster = FlowForecaster.load(path)
        # the first call of a process is slow; no request must wait for it
        empty = np.zeros((1, WINDOW, len(FEATURES)))
        forecaster(empty, np.array([0]), np.array([WINDOW]))
        return forecaster

    def parse(self, body: bytes) -> FlowQuestion:
        return parse_question(body, time.time())

    def forecast(
        self, model: FlowForecaster, questions: list[FlowQuestion]
    ) -> tuple[_Inputs, FlowForecasts]:
        inputs = _Inputs(
            np.stack([question.window.features for question in questions]),
            np.array([model.rows[question.junction_id] for question in questions]),
            np.array([question.window.observed for question in questions]),
        )
        return inputs, model(*inputs)

    def answers(
        self, model: FlowForecaster, questions: list[FlowQuestion], outputs: FlowForecasts
    ) -> list[bytes]:
        flows, confidences = outputs.flows.tolist(), outputs.confidences.round(4).tolist()
        if self.watched.watched:
            for made in list(zip(questions, flows, confidences, strict=True))[-MAX_FORECASTS:]:
                self.watched.note(_reported(*made))
        return [
            json.dumps(
                {
                    "junction_id": question.junction_id,
                    "forecast_timestamp": question.newest + HORIZON * MINUTE_S,
                    "predicted_flow": round(flow),
                    "confidence": confidence,
                    "status": "success",
                    "timestamp": now_ms(),
                }
            ).encode()
            for question, flow, confidence in zip(questions, flows, confidences, strict=True)
        ]

    def target(self, question: FlowQuestion) -> str:
        return question.junction_id

    def drift(self, model: FlowForecaster, inputs: list[_Inputs]) -> Mapping[str, float]:
        windows = np.concatenate([each.windows for each in inputs])
        rows = np.concatenate([each.rows for each in inputs])
        low, high = model.low[rows, None], model.high[rows, None]
        outside = ((windows < low) | (windows > high)).mean(axis=(0, 1))
        return dict(zip(FEATURES, outside.tolist(), strict=True))

    async def health(self) -> Health:
        model = self.slot.model
        return Health(
            status="healthy" if model else "unhealthy",
            model_loaded=model is not None,
            model_version=model.card.version if model else "none",
            timestamp=now_ms(),
            detail=self.slot.problem,
        )

    async def model_info(self) -> ModelInfo:
        model = self.slot.model
        return ModelInfo(
            model_version=model.card.version if model else "none",
            target_accuracy=model.target_accuracy if model else "none",
            trained_on_junctions=list(model.rows) if model else [],
        )


def _reported(question: FlowQuestion, flow: float, confidence: float) -> FlowForecast:
    counts = question.window.features[WINDOW - question.window.observed :, 0].tolist()
    horizon_s = HORIZON * MINUTE_S
    return FlowForecast(question.junction_id, question.newest, counts, flow, horizon_s, confidence)
