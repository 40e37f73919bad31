"""What the gateway can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from deployments.gateway.observations import check_capacities
from models.lane_capacities import LANE_CAPACITIES


class GatewayOptions(BaseModel):
    """Options of one gateway application."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_waiting: int = Field(
        1000,
        ge=1,
        le=1000,
        description="Worked on at once by one replica; more are answered 503.",
        json_schema_extra={"unit": "requests"},
    )
    deadline_s: float = Field(
        2.0,
        gt=0,
        le=60,
        description="For an answer of the inference service; then the fallback takes its place. "
        "Must be above the `shared_patience_s` of `inference_app`.",
    )
    breaker_failures: int = Field(
        5,
        ge=1,
        description="In a row, after which the inference service is not asked.",
        json_schema_extra={"unit": "failed calls"},
    )
    breaker_pause_s: float = Field(
        1.0, gt=0, le=60, description="From then until it is asked again."
    )
    inference_app: str = Field(
        "inference", description="Application asked when `RL_INFERENCE_SERVICE_URL` is unset."
    )
    call_by: Literal["http", "handle"] = Field(
        "http",
        description="Ask it at this node's HTTP front, or by Serve handle: slower, but right where"
        " the front speaks TLS, or not every node has one.",
    )
    login_attempts_per_user: int = Field(
        10,
        ge=1,
        description="In one window, of one user name, until one succeeds; more are 429.",
        json_schema_extra={"unit": "logins"},
    )
    login_attempts_per_address: int = Field(
        300,
        ge=1,
        description="In one window, from one address, whatever their outcome; more are 429.",
        json_schema_extra={"unit": "logins"},
    )
    login_window_s: int = Field(60, ge=1, description="The window, from its first login on.")
    clock_skew_s: float = Field(
        5.0, ge=0, le=60, description="By how much the clocks of two nodes may differ."
    )
    trust_forwarded_for: bool = Field(
        True, description="Take a client's address from `X-Forwarded-For`, as the edge sets it."
    )
    lane_capacities: dict[str, list[float]] = Field(
        LANE_CAPACITIES,
        description="What fits on each incoming lane: a list by junction id.",
        json_schema_extra={"unit": "vehicles", "default": "`models/lane_capacities.py`"},
    )

    @field_validator("lane_capacities")
    @classmethod
    def _fit_the_junctions(cls, value: dict[str, list[float]]) -> dict[str, list[float]]:
        check_capacities(value)
        return value
