"""What the gateway can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator

from deployments.access.claims import Scope


class GatewayOptions(BaseModel):
    """Options of one gateway application."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: Path | None = Field(
        None,
        description="File of the road network, instead of `NETWORK_PATH`; the one of "
        "`inference_app`. A relative path counts from the folder of the product.",
    )
    max_waiting: int = Field(
        1000,
        ge=1,
        le=1000,
        description="Maximum number of requests that one replica works on at once; any further one "
        "is answered 503. It takes on fewer while requests wait longer than 80 ms for their turns.",
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
    fallback: Literal["red", "plan"] = Field(
        "red",
        description="What is answered while the inference service is not to be had: action 0 and "
        "RED, or the phase of a fixed-time plan by the clock.",
    )
    plan_file: Path | None = Field(
        None,
        description="Plan of the fallback `plan`, read where the application is built.",
        json_schema_extra={
            "default": "`models/shipped/greenwave.plan.json`, or with `safety`"
            " `models/shipped/greenwave.safe-plan.json`"
        },
    )
    plan_time_zone: str = Field(
        "UTC",
        description="Time zone of the plan's times of day.",
        json_schema_extra={"range": "a name such as `Europe/Paris`"},
    )
    safety: bool = Field(
        False,
        description="Whether each answer passes the safety layer. Clients then have to say what "
        "their junctions show.",
    )
    safety_min_green_s: float = Field(
        5.0, ge=1, le=60, description="Shortest green of a phase, with `safety`."
    )
    safety_max_red_s: float = Field(
        120.0, ge=1, le=3600, description="Longest time that a phase is not green, with `safety`."
    )
    safety_asked_every_s: float = Field(
        5.0,
        gt=0,
        le=60,
        description="Longest time between two requests of a junction, for which "
        "`safety_max_red_s` is kept.",
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
        "answered 429. A success starts the count anew. Each address from which the user has "
        "logged in within 30 days has a count of its own.",
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
    scopes_while_unchecked: list[Scope] = Field(
        ["act"],
        description="What tokens still allow while the store could not be asked for 5 s which of "
        "them are revoked; all else is answered 503. With `act`, signals are decided on.",
    )
    trust_forwarded_for: bool = Field(
        True,
        description="Whether a client's address is taken from `X-Forwarded-For`, as the edge sets "
        "it.",
    )
    lane_capacities: dict[str, list[float]] | None = Field(
        None,
        description="Vehicles that fit on each incoming lane: a list by junction id.",
        json_schema_extra={"unit": "vehicles", "default": "those of the network"},
    )

    @field_validator("plan_time_zone")
    @classmethod
    def _be_known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (LookupError, OSError, ValueError) as error:
            raise ValueError(f"no time zone is called {value!r} here") from error
        return value
