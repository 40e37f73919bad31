"""Bodies of the inference service, as the contract words them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, FailFast, Field
from pydantic.config import JsonDict

from deployments.http.docs import redescribe
from deployments.http.errors import Code, ErrorBody
from deployments.http.messages import KEY_DESCRIPTION, RUN_DESCRIPTION
from models.networks.network import Network
from models.networks.shipped import JUNCTIONS
from models.policy.training_record import Counts
from models.signals import diagnosis

FLOAT32_MAX = float(np.finfo(np.float32).max)
_EXAMPLE: JsonDict = {"junction_id": "300839359", "obs_data": [1, 0, 1, 0.2, 0.0, 0.4, 0.1, 0.0]}

Value = Annotated[float, Field(ge=-FLOAT32_MAX, le=FLOAT32_MAX, allow_inf_nan=False)]
RunId = Annotated[str | None, Field(description=RUN_DESCRIPTION)]


class _Observed(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, json_schema_extra={"example": _EXAMPLE})

    junction_id: str = Field(description=f"One of {', '.join(JUNCTIONS)}.")
    # An error for each of thousands of wrong values would take a tenth of a second.
    obs_data: Annotated[
        list[Value],
        FailFast(),
        Field(description="At most 19 finite values; a shorter vector is zero-padded."),
    ]


class PredictionRequest(_Observed):
    model_config = ConfigDict(extra="allow")  # so that a misnamed run is refused

    run_id: RunId = None


class BatchItem(_Observed):
    request_id: str | None = Field(None, description=KEY_DESCRIPTION)


class Prediction(BaseModel):
    junction_id: str
    action: int = Field(ge=0, le=3, description="Index of the chosen action.")
    confidence: float = Field(ge=0, le=1, description="Probability of that action.")
    failed_detectors: dict[str, diagnosis.Fault] | None = Field(
        None,
        description="By lane, why its reading was replaced; absent if none was, or if detectors "
        "are not diagnosed.",
    )


class BatchRequest(BaseModel):
    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="allow",
        json_schema_extra={"example": {"items": [_EXAMPLE]}},
    )

    run_id: RunId = None
    # An invalid item must not fail the others, so each is validated separately.
    items: Annotated[list[Any], Field(min_length=1, max_length=1000)]


class Fault(BaseModel):
    type: str
    loc: list[str | int]
    msg: str


class InvalidBody(BaseModel):
    detail: list[Fault]


class KeyReused(ErrorBody):
    code: Literal["key_reused"]


class OutcomeUnknown(ErrorBody):
    code: Literal["outcome_unknown"]


class ItemFailure(BaseModel):
    status: int
    detail: str
    code: Code | None = Field(
        None, description="Why, for programs, where the status leaves it open."
    )


class FailedPrediction(BaseModel):
    junction_id: str | None
    error: ItemFailure


class BatchResponse(BaseModel):
    items: list[Prediction | FailedPrediction]


class ResetRequest(BaseModel):
    # a misspelt run would reset the default one
    model_config = ConfigDict(strict=True, extra="forbid")

    run_id: RunId = None


class ResetResponse(BaseModel):
    status: Literal["ok"] = "ok"
    message: str = "Hidden states reset for all junctions"


class Health(BaseModel):
    status: Literal["healthy", "no_model", "unhealthy"]
    model_loaded: bool
    junctions: list[str]
    detail: str | None = Field(
        None,
        description="Why the status is not `healthy`; beside `healthy`, why the newest policy file "
        "is not served and the one before it stays in service.",
    )


class JunctionInfo(BaseModel):
    agent_index: int
    avail_actions: list[int]
    valid_actions: int


class ModelInfo(BaseModel):
    architecture: str = "RNNAgent (GRU)"
    input_shape: int
    hidden_dim: int
    n_actions: int
    n_agents: int
    obs_agent_id: bool = True
    counts: Counts = Field(
        default="standing",
        description="Vehicles that a lane's value in an observation counts: those that stand, or "
        "all on the lane. The record beside the policy's file names them.",
    )
    junctions: dict[str, JunctionInfo]


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
