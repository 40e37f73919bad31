"""A two-layer LSTM on Ray Serve, with exact states. Start it with: serve run lstm:app"""

import os
from functools import partial
from typing import Annotated

import numpy as np
from fastapi import Body, FastAPI, Header
from ray import serve

from deployments.stateful import Engine, Key, Model, StateOptions
from deployments.store import open_store

LAYERS, INPUTS, WIDTH = 2, 8, 8
Inputs = Annotated[list[float], Body(min_length=INPUTS, max_length=INPUTS)]
IdempotencyKey = Annotated[str | None, Header(max_length=100)]
api = FastAPI()


class Lstm(Model):
    """Random weights. A state is (layer, h and c, WIDTH) in float64, an output the last h."""

    output = np.dtype([(f"h{n}", "f8") for n in range(WIDTH)])  # of which the engine keeps receipts

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
        model, store = Lstm(), partial(open_store, store_url)
        state = model.initial_state(Key("", ""))
        engine = await Engine.connect(StateOptions(), state, model.output, "lstm", store)
        self.batcher = engine.batcher(lambda: model)

    @api.post("/step/{run}/{entity}")
    async def step(
        self, run: str, entity: str, inputs: Inputs, idempotency_key: IdempotencyKey = None
    ) -> dict:
        digest = hash(tuple(inputs))  # of numbers, it is the same in every process
        result = await self.batcher.submit(Key(run, entity), inputs, idempotency_key, digest)
        return {"output": result.output, "step": result.step}


app = Service.bind(os.environ.get("STORE_URL", "sqlite:////tmp/lstm-states.db"))
