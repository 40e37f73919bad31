"""A two-layer LSTM on Ray Serve, with exact states. Start it with: serve run lstm:app"""

import os
from functools import partial
from typing import Annotated

import numpy as np
from fastapi import FastAPI, Header
from ray import serve

from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import Key
from deployments.stateful.ray.client import connect_engine
from deployments.stateful.replica.batcher import Batcher
from deployments.store import open_store

LAYERS, INPUTS, WIDTH = 2, 8, 8
IdempotencyKey = Annotated[str | None, Header(max_length=100)]
api = FastAPI()


class Lstm:
    """Random weights. A state is (layer, h and c, WIDTH) in float64."""

    def __init__(self, seed: int = 0) -> None:
        self.weights = np.random.default_rng(seed).normal(size=(LAYERS, INPUTS + WIDTH, 4 * WIDTH))

    def initial_state(self, key: Key) -> np.ndarray:
        return np.zeros((LAYERS, 2, WIDTH))

    def step(self, inputs: list[list[float]], states: np.ndarray) -> tuple[list, np.ndarray]:
        x, new = np.array(inputs), np.empty_like(states)
        for layer in range(LAYERS):
            h, c = states[:, layer, 0], states[:, layer, 1]
            gates = np.concatenate([x, h], axis=1) @ self.weights[layer]
            i, f, o = np.split(1 / (1 + np.exp(-gates[:, : 3 * WIDTH])), 3, axis=1)
            c = f * c + i * np.tanh(gates[:, 3 * WIDTH :])
            x = new[:, layer, 0] = o * np.tanh(c)
            new[:, layer, 1] = c
        return [tuple(row) for row in x.tolist()], new


@serve.deployment(num_replicas=2, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.1})
@serve.ingress(api)
class Service:
    async def __init__(self, store_url: str) -> None:
        options, model, store = StateOptions(), Lstm(), partial(open_store, store_url)
        self.engine = await connect_engine(options, model.initial_state, "lstm", store, store())
        self.batcher = Batcher(self.engine, lambda: model)
        await self.engine.start()

    @api.post("/step/{run}/{entity}")
    async def step(
        self, run: str, entity: str, inputs: list[float], idempotency_key: IdempotencyKey = None
    ) -> dict:
        result = await self.batcher.submit(Key(run, entity), inputs, request_id=idempotency_key)
        return {"output": result.output, "step": result.step}

    def check_health(self) -> None:
        self.engine.check_health()


app = Service.bind(os.environ.get("STORE_URL", "sqlite:////tmp/lstm-states.db"))
