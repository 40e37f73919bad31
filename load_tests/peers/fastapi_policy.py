"""Peer: the policy on bare FastAPI and uvicorn, as one would first write it.

Run: ``uvicorn --factory load_tests.peers.fastapi_policy:create_app --no-access-log``.
``PEER_STEP=numpy`` replaces eager PyTorch by the product's own NumPy step.
"""

from __future__ import annotations

import os

from fastapi import FastAPI, HTTPException

from load_tests.peers.bodies import Prediction, PredictionRequest
from load_tests.peers.steps import numpy_step, torch_step
from models.junctions import JUNCTIONS, MAX_OBS


def create_app() -> FastAPI:
    step = numpy_step() if os.environ.get("PEER_STEP") == "numpy" else torch_step()
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
