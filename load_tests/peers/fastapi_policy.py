"""Peer: the policy on bare FastAPI and uvicorn, hidden states in a dict, as one would first write
it.

Run: ``MAPPO_AGENT_PATH=… uvicorn --factory load_tests.peers.fastapi_policy:create_app
--no-access-log``. ``PEER_STEP=numpy`` replaces eager PyTorch by the product's own NumPy step.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import torch
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from models.junctions import JUNCTIONS, MAX_OBS
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import encode
from models.policy.network import RecurrentPolicy, mask_logits, read_state_dict
from models.policy.step import PolicyStep

PeerStep = Callable[[str, list[float]], tuple[int, float]]


class PredictionRequest(BaseModel):
    junction_id: str
    obs_data: list[float]


class Prediction(BaseModel):
    junction_id: str
    action: int
    confidence: float


def create_app() -> FastAPI:
    torch.set_num_threads(1)
    weights = read_state_dict(os.environ["MAPPO_AGENT_PATH"])
    step = _numpy_step(weights) if os.environ.get("PEER_STEP") == "numpy" else _torch_step(weights)
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


def _torch_step(weights: dict[str, torch.Tensor]) -> PeerStep:
    policy = RecurrentPolicy().eval()
    policy.load_state_dict(weights)
    states = {junction: torch.zeros(1, HIDDEN_DIM) for junction in JUNCTIONS}
    masks = {j.id: torch.tensor([j.avail_actions]) for j in JUNCTIONS.values()}

    @torch.inference_mode()
    def step(junction: str, obs: list[float]) -> tuple[int, float]:
        inputs = torch.from_numpy(encode([JUNCTIONS[junction].agent_index], [obs]))
        logits, states[junction] = policy(inputs, states[junction])
        probabilities = torch.softmax(mask_logits(logits, masks[junction]), dim=1)
        confidence, action = probabilities.max(dim=1)
        return int(action), float(confidence)

    return step


def _numpy_step(weights: dict[str, torch.Tensor]) -> PeerStep:
    policy = PolicyStep(weights)
    states = {junction: np.zeros((1, HIDDEN_DIM), np.float32) for junction in JUNCTIONS}
    unavailable = {j.id: np.array([[not a for a in j.avail_actions]]) for j in JUNCTIONS.values()}

    def step(junction: str, obs: list[float]) -> tuple[int, float]:
        inputs = encode([JUNCTIONS[junction].agent_index], [obs])
        result = policy(inputs, states[junction], unavailable[junction])
        states[junction] = result.hidden
        return int(result.actions[0]), float(result.confidences[0])

    return step
