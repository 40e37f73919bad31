"""Bodies of the gateway, as the contract words them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from deployments.gateway.action_request import FLOAT32_MAX, MAX_SECONDS
from models.networks.shipped import JUNCTIONS, MAX_OBS, N_ACTIONS
from models.signals.diagnosis import Fault

SignalState = Literal["RED", "YELLOW", "GREEN"]

# The contract has no fourth state, so action 3 is green, too; predictedAction differs.
SIGNAL_OF_ACTION: tuple[SignalState, ...] = ("RED", "YELLOW", "GREEN", "GREEN")


def signal_of(action: int) -> SignalState:
    """Return the signal state of an action; GREEN for those that the contract does not have."""
    return SIGNAL_OF_ACTION[action] if action < len(SIGNAL_OF_ACTION) else "GREEN"


FALLBACK_STATUS: Final = "fallback_mode (inference service down)"


JunctionId = Annotated[str, Field(json_schema_extra={"enum": list(JUNCTIONS)})]
Timestamp = Annotated[int, Field(description="Milliseconds since the Unix epoch.")]
ActionStatus = Literal["success", "fallback_mode (inference service down)"]
SafetyRule = Literal["none", "no_such_phase", "change_under_way", "minimum_green", "maximum_red"]
NotBlank = Annotated[str, Field(pattern=r"\S")]
Value = Annotated[float, Field(ge=-FLOAT32_MAX, le=FLOAT32_MAX)]


class LoginRequest(BaseModel):
    username: NotBlank
    password: NotBlank


class LoginResponse(BaseModel):
    tokenType: Literal["Bearer"] = "Bearer"
    accessToken: str = Field(description="JWT, for the header `Authorization: Bearer …`.")
    expiresIn: int = Field(description="Lifetime of the token in seconds.")
    timestamp: Timestamp


class KeySet(BaseModel):
    keys: list[dict[str, Any]] = Field(description="Public keys in the form of RFC 7517.")


class Shown(BaseModel):
    phase: Annotated[int, Field(ge=0, lt=N_ACTIONS)] = Field(
        description="The phase that is green or, during a change, about to be."
    )
    greenSeconds: float = Field(
        description="For how long it has been green; below zero, in how long it will be.",
        ge=-MAX_SECONDS,
        le=MAX_SECONDS,
    )
    redSeconds: list[Annotated[float, Field(ge=0, le=MAX_SECONDS)]] = Field(
        description="For each phase, for how long it has not been green; 0 for one that is."
    )


class ActionRequest(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "junctionId": "300839359",
                "observations": [1, 0, 1, 0.2, 0.0, 0.4, 0.1, 0.0],
                "metadata": "morning peak",
            }
        }
    )

    junctionId: JunctionId
    observations: Annotated[list[Value], Field(min_length=1, max_length=MAX_OBS)] = Field(
        description="Phase one-hot, min-green flag, one value per incoming lane; zero-padded to 19."
    )
    observationFormat: Literal["normalized", "vehicle_counts"] | None = Field(
        "normalized",
        description="`vehicle_counts`: the lanes' values are vehicle counts, which the gateway "
        "divides by the lanes' capacities; then the vector has exactly the junction's own length.",
    )
    simulationTime: Annotated[float, Field(ge=0, le=MAX_SECONDS)] | None = Field(
        None,
        description="Seconds of the day, for a client with its own clock, such as a "
        "simulation: a fallback by plan then goes by it. 27000 is 7:30.",
    )
    shown: Shown | None = Field(
        None, description="What the junction shows; required while the safety layer is on."
    )
    metadata: Any = Field(None, description="Free text label; logged and otherwise ignored.")


class SafetyStep(BaseModel):
    afterSeconds: float = Field(ge=0)
    state: str = Field(
        description="A letter for each link: `G` and `g` green, `y` yellow, `r` red."
    )


class Safety(BaseModel):
    """Decision of the safety layer; all times count from the moment that `shown` describes."""

    asked: int = Field(description="The action of the policy, or of the fallback.")
    rule: SafetyRule = Field(description="Why `predictedAction` is another than `asked`.")
    showAfterSeconds: float = Field(
        ge=0, description="From when on `predictedAction` may be green; 0 if it is."
    )
    steps: list[SafetyStep] = Field(
        description="What to show until then, and then; empty unless a change begins."
    )


class ActionResponse(BaseModel):
    junctionId: str
    predictedAction: int = Field(ge=0, lt=N_ACTIONS)
    signalState: SignalState
    timestamp: Timestamp
    status: ActionStatus = Field(
        description=f"`{FALLBACK_STATUS}` comes with action 0 and RED, or with `fallbackPlan`."
    )
    fallbackPlan: str | None = Field(
        None,
        description="The fixed-time plan that the fallback's action is from, and its period. "
        "Absent with RED, and from decisions of the policy.",
    )
    safety: Safety | None = Field(None, description="Absent while the safety layer is off.")
    failedDetectors: dict[str, Fault] | None = Field(
        None,
        description="By lane, why an estimate took the place of its reading; absent if none did, "
        "or if detectors are not diagnosed. When all have failed, the fallback answers if it is a "
        "plan.",
    )


class ResetResponse(BaseModel):
    status: Literal["ok"] = "ok"
    message: str = "Hidden states reset for all junctions"


class HealthResponse(BaseModel):
    status: Literal["healthy", "degraded"]
    inferenceService: Literal["up", "down"]
    timestamp: Timestamp


class ErrorBody(BaseModel):
    status: Literal["error"] = "error"
    message: str
    timestamp: Timestamp
