"""Peer: both forecasts on bare FastAPI and uvicorn, the same networks, as one would first write it.

Run: ``uvicorn --factory load_tests.peers.fastapi_forecasts:create_app --no-access-log``.
``PEER_STEP=product`` takes the product's own forecasters, one request at a time, instead of eager
PyTorch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fastapi import FastAPI
from numpy.typing import NDArray
from pydantic import BaseModel

from models.artifacts import Card, Tensors, read_artifact
from models.density.forecast import DensityConfig, DensityForecaster, shapes_of
from models.density.network import DensityNetwork
from models.flow.forecast import FlowConfig, FlowForecaster
from models.flow.network import FlowNetwork
from models.flow.window import make_window
from serve_app.settings import Settings

Floats = NDArray[np.float64]


class PredictionRequest(BaseModel):
    data: list[list[float]]


class Sample(BaseModel):
    timestamp: int
    vehicle_count: int
    avg_speed: float
    occupancy: float


class ForecastRequest(BaseModel):
    junction_id: str
    historical_data: list[Sample]


def create_app() -> FastAPI:
    torch.set_num_threads(1)
    settings = Settings()
    eager = os.environ.get("PEER_STEP") != "product"
    density = DensityForecaster.load(settings.density_model_path)
    predict_density = _eager_density(settings.density_model_path) if eager else density
    flow = (_EagerFlow if eager else FlowForecaster).load(settings.flow_model_path)
    app = FastAPI()

    @app.post("/predict")
    async def predict(request: PredictionRequest) -> dict[str, Any]:
        forecast = predict_density(np.array([request.data]))
        return {"prediction": forecast[0].tolist(), "edge_ids": density.edges}

    @app.post("/forecast")
    async def forecast(request: ForecastRequest) -> dict[str, Any]:
        samples = request.historical_data
        timestamps = np.array([sample.timestamp for sample in samples])
        features = [(s.vehicle_count, s.avg_speed, s.occupancy) for s in samples]
        window = make_window(timestamps, np.array(features, float))
        row = np.array([flow.rows[request.junction_id]])
        forecasts = flow(window.features[None], row, np.array([window.observed]))
        return {
            "junction_id": request.junction_id,
            "forecast_timestamp": samples[-1].timestamp + 900,
            "predicted_flow": round(float(forecasts.flows[0])),
            "confidence": float(forecasts.confidences[0]),
            "status": "success",
            "timestamp": time.time_ns() // 1_000_000,
        }

    return app


class _EagerFlow(FlowForecaster):
    """The network in PyTorch in the place of the one in NumPy."""

    def __init__(self, tensors: Tensors, config: FlowConfig, card: Card) -> None:
        super().__init__(tensors, config, card)
        self._eager = FlowNetwork(config.hidden_dim, len(config.junctions)).eval()
        self._eager.load_state_dict({name: torch.from_numpy(t) for name, t in tensors.items()})
        self._one_hot = torch.eye(len(config.junctions))

    @torch.inference_mode()
    def _network(
        self, scaled: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        outlook = self._eager(torch.from_numpy(scaled), self._one_hot[rows])
        return outlook.median.numpy(), outlook.log_scale.numpy()


def _eager_density(path: Path) -> Callable[[Floats], Floats]:
    tensors, config, _ = read_artifact(path, DensityConfig, shapes_of)
    network = DensityNetwork(config.hidden_dim).eval()
    network.load_state_dict({name: torch.from_numpy(t) for name, t in tensors.items()})
    mean, std = torch.tensor(config.column("mean")), torch.tensor(config.column("std"))

    @torch.inference_mode()
    def predict(densities: Floats) -> Floats:
        scaled = ((torch.from_numpy(densities) - mean) / std).float()
        forecast: Floats = (network(scaled) * std + mean).clamp(min=0).numpy()
        return forecast

    return predict
