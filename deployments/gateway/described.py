"""The gateway's document for another network than that of the documents."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from deployments.http.docs import redescribe
from models.networks.network import Network

MAX_NAMED = 50


def describe(app: FastAPI, network: Network) -> None:
    """Have the OpenAPI document tell of a network's junctions and sizes."""
    first = next(iter(network.junctions.values()))

    def change(document: dict[str, Any]) -> None:
        schemas = document["components"]["schemas"]
        request = schemas["ActionRequest"]
        junction = request["properties"]["junctionId"]
        if network.n_agents <= MAX_NAMED:
            junction["enum"] = list(network.ids)
        else:
            del junction["enum"]
        request["example"] = {
            "junctionId": first.id,
            "observations": [1.0] + [0.0] * (first.obs_size - 1),
        }
        observations = request["properties"]["observations"]
        observations["maxItems"] = network.max_obs
        observations["description"] = (
            "Phase one-hot, min-green flag, one value per incoming lane; zero-padded to"
            f" {network.max_obs}."
        )
        schemas["Shown"]["properties"]["phase"]["exclusiveMaximum"] = network.n_actions
        answered = schemas["ActionResponse"]["properties"]["predictedAction"]
        answered["exclusiveMaximum"] = network.n_actions

    redescribe(app, change)
