"""Peer: the policy on bare FastAPI, for ``uvicorn --factory``."""

from __future__ import annotations

from fastapi import FastAPI, HTTPException

from load_tests.bench.peer_servers import Prediction, PredictionRequest
from load_tests.bench.peer_servers.policy import torch_step
from models.networks.shipped import JUNCTIONS, MAX_OBS


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
