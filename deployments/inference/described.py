"""The service's document for another network than that of the documents."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from deployments.http.docs import redescribe
from models.networks.network import Network

MAX_NAMED = 50


def describe(app: FastAPI, network: Network) -> None:
    """Have the OpenAPI document tell of a network's junctions and sizes."""
    first = next(iter(network.junctions.values()))
    few = network.n_agents <= MAX_NAMED
    ids = ", ".join(network.ids) if few else "the junctions of `GET /model_info`"
    example = {"junction_id": first.id, "obs_data": [1.0] + [0.0] * (first.obs_size - 1)}

    def change(document: dict[str, Any]) -> None:
        document["info"]["description"] = (
            f"One multi-agent recurrent policy for the {network.n_agents} junctions of"
            f" {network.name}.\nEach junction has a hidden state per simulation run, kept between"
            " calls."
        )
        schemas = document["components"]["schemas"]
        observed = schemas["PredictionRequest"]
        observed["example"] = example
        schemas["BatchRequest"]["example"] = {"items": [example]}
        observed["properties"]["junction_id"]["description"] = f"One of {ids}."
        observed["properties"]["obs_data"]["description"] = (
            f"At most {network.max_obs} finite values; a shorter vector is zero-padded."
        )
        schemas["Prediction"]["properties"]["action"]["maximum"] = network.n_actions - 1

    redescribe(app, change)
