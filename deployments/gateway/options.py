"""What the gateway can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

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
        description="Maximum number of requests that one replica works on at once; any further one "
        "is answered 503.",
        json_schema_extra={"unit": "requests"},
    )
    deadline_s: float = Field(
        2.0,
        gt=0,
        le=60,
        description="Longest wait for an answer of the inference service before the fallback is "
        "given. Must be above the `shared_patience_s` of `inference_app`.",
    )
    breaker_failures: int = Field(
        5,
        ge=1,
        description="Failed calls in a row after which the inference service is not asked for "
        "`breaker_pause_s`.",
        json_schema_extra={"unit": "calls"},
    )
    breaker_pause_s: float = Field(
        1.0,
        gt=0,
        le=60,
        description="Time for which the inference service is not asked after `breaker_failures` "
        "failed calls in a row.",
    )
    inference_app: str = Field(
        "inference",
        description="Application that the gateway asks, at its node's HTTP front, when "
        "`RL_INFERENCE_SERVICE_URL` is unset.",
    )
    login_attempts_per_user: int = Field(
        10,
        ge=1,
        description="Maximum number of logins of one user name in a window; any further one is "
        "answered 429. A success starts the count anew.",
        json_schema_extra={"unit": "logins"},
    )
    login_attempts_per_address: int = Field(
        300,
        ge=1,
        description="Maximum number of logins from one address in a window, whatever the outcome; "
        "any further one is answered 429.",
        json_schema_extra={"unit": "logins"},
    )
    login_window_s: int = Field(
        60,
        ge=1,
        description="Length of the window in which logins are counted, from the first of them on.",
    )
    clock_skew_s: float = Field(
        5.0,
        ge=0,
        le=60,
        description="Largest difference tolerated between the clocks of two nodes.",
    )
    trust_forwarded_for: bool = Field(
        True,
        description="Whether a client's address is taken from `X-Forwarded-For`, as the edge sets "
        "it.",
    )
    lane_capacities: dict[str, list[float]] = Field(
        LANE_CAPACITIES,
        description="Vehicles that fit on each incoming lane: a list by junction id.",
        json_schema_extra={"unit": "vehicles", "default": "`models/lane_capacities.py`"},
    )

    @field_validator("lane_capacities")
    @classmethod
    def _fit_the_junctions(cls, value: dict[str, list[float]]) -> dict[str, list[float]]:
        check_capacities(value)
        return value
