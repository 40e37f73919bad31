"""Peers on bare FastAPI and uvicorn: the policy, both forecasts, and loans.

Each factory is for ``uvicorn --factory``. Forecasts have their networks in eager PyTorch, as one
would first write them, or with ``PEER_STEP=greenwave`` Greenwave's own models, a request at a time.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import FastAPI, HTTPException, Query, Response
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from deployments.store import Document, DuplicateDocument, open_store
from lab.train.forecasts.networks import DensityNetwork, FlowNetwork
from load_tests.bench.peer_servers import Prediction, PredictionRequest
from load_tests.bench.peer_servers.policy import torch_step
from models.artifacts import Card, Tensors, read_artifact
from models.density.forecast import DensityConfig, DensityForecaster, shapes_of
from models.flow.forecast import FlowConfig, FlowForecaster
from models.flow.window import make_window
from models.networks.shipped import JUNCTIONS, MAX_OBS
from serve_app.settings import Settings

Floats = NDArray[np.float64]


def policy_app() -> FastAPI:
    step = torch_step()
    app = FastAPI()

    @app.post("/predict_action")
    async def predict_action(request: PredictionRequest) -> Prediction:
        if request.junction_id not in JUNCTIONS:
            raise HTTPException(404, f"Unknown junction '{request.junction_id}'")
        if len(request.obs_data) > MAX_OBS:
            raise HTTPException(400, f"obs_data has {len(request.obs_data)} values")
        action, confidence = step(request.junction_id, request.obs_data)
        return Prediction(junction_id=request.junction_id, action=action, confidence=confidence)

    return app


class DensityRequest(BaseModel):
    data: list[list[float]]


class Sample(BaseModel):
    timestamp: int
    vehicle_count: int
    avg_speed: float
    occupancy: float


class FlowRequest(BaseModel):
    junction_id: str
    historical_data: list[Sample]


def forecasts_app() -> FastAPI:
    torch.set_num_threads(1)
    settings = Settings()
    density = DensityForecaster.load(settings.density_model_path)
    predict_density = _eager_density(settings.density_model_path) if _is_eager() else density
    flow = (_EagerFlow if _is_eager() else FlowForecaster).load(settings.flow_model_path)
    app = FastAPI()

    @app.post("/predict")
    async def predict(request: DensityRequest) -> dict[str, Any]:
        forecast = predict_density(np.array([request.data]))
        return {"prediction": forecast[0].tolist(), "edge_ids": density.edges}

    @app.post("/forecast")
    async def forecast(request: FlowRequest) -> dict[str, Any]:
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


MobileNumber = Annotated[str, Query(alias="mobileNumber", pattern="^[0-9]{10}$")]


class Loan(BaseModel):
    mobileNumber: str = Field(pattern="^[0-9]{10}$")
    loanNumber: str = Field(pattern="^[0-9]{12}$")
    loanType: str = Field(min_length=1)
    totalLoan: int = Field(gt=0)
    amountPaid: int = Field(ge=0)
    outstandingAmount: int = Field(ge=0)


def loans_app() -> FastAPI:
    """Serve loans from the store at ``STORE_URL``; so they are as durable as Greenwave's."""
    store = open_store(os.environ["STORE_URL"])
    app = FastAPI()

    @app.post("/api/loans", status_code=201)
    async def create(mobile: MobileNumber) -> dict[str, str]:
        loan = Loan(
            mobileNumber=mobile,
            loanNumber=str(10**11 + secrets.randbelow(9 * 10**11)),
            loanType="Home Loan",
            totalLoan=100_000,
            amountPaid=0,
            outstandingAmount=100_000,
        )
        content = loan.model_dump_json().encode()
        try:
            await store.create("loans", Document(loan.loanNumber, content, mobile))
        except DuplicateDocument as error:
            raise HTTPException(400, str(error)) from error
        return {"statusCode": "201", "statusMsg": "Loan created successfully"}

    @app.get("/api/loans")
    async def fetch(mobile: MobileNumber) -> Response:
        value = await store.get_by_index("loans", mobile)
        if value is None:
            raise HTTPException(404, "Loan not found")
        return Response(value, media_type="application/json")

    return app


def _is_eager() -> bool:
    return os.environ.get("PEER_STEP", "torch") == "torch"


class _EagerFlow(FlowForecaster):
    """The flow forecast with its network in PyTorch instead of NumPy."""

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
