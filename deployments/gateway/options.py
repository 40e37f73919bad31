"""Options of the gateway: ``args`` of its application in a serve config."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from deployments.options import Options
from models.signals.safety import Limits


class GatewayOptions(Options):
    """Options of one gateway application."""

    network: Path | None = Field(
        None,
        description="File of the road network, instead of `NETWORK_PATH`; the one of "
        "`inference_app`.",
    )
    deadline_s: float = Field(
        2.0,
        gt=0,
        le=60,
        description="Longest wait for the inference service before the fallback.",
    )
    inference_app: str = Field(
        "inference",
        description="Application that the gateway asks, if `RL_INFERENCE_SERVICE_URL` is unset.",
    )
    fallback: Literal["red", "plan"] = Field(
        "red",
        description="Answer while the inference service does not answer: action 0 and RED, or the "
        "phase of a fixed-time plan by the clock.",
    )
    plan_file: Path | None = Field(
        None,
        description="Plan of the fallback `plan`.",
        json_schema_extra={
            "default": "`models/networks/greenwave/greenwave.plan.json`, or with `safety`"
            " `models/networks/greenwave/greenwave.safe-plan.json`"
        },
    )
    plan_time_zone: ZoneInfo = Field(
        ZoneInfo("UTC"),
        description="Time zone of the plan's times of day.",
        json_schema_extra={"default": "`UTC`", "range": "a name such as `Europe/Paris`"},
    )
    safety: bool = Field(
        False,
        description="Whether each answer passes the safety layer. Clients then have to say what "
        "their junctions show.",
    )
    safety_policy: Literal["trained", "any"] = Field(
        "trained",
        description="Policies that `greenwave` deploys with `safety`: those `trained` behind the "
        "layer, or `any`.",
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
    safety_max_pedestrian_wait_s: float | None = Field(
        None,
        ge=1,
        le=3600,
        description="Longest red of a phase with pedestrian crossings.",
        json_schema_extra={"default": "that of `safety_max_red_s`"},
    )
    safety_cyclic: bool = Field(
        False,
        description="Whether the phases keep their cyclic order, with `safety`: each at most once "
        "between two of the first.",
    )

    @property
    def limits(self) -> Limits:
        """The limits of the safety layer."""
        return Limits(
            self.safety_min_green_s,
            self.safety_max_red_s,
            self.safety_asked_every_s,
            self.safety_max_pedestrian_wait_s,
            self.safety_cyclic,
        )
