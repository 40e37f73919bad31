"""Bodies of the gateway, as the contract words them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from deployments.gateway.action_request import FLOAT32_MAX
from deployments.gateway.signals import FALLBACK_STATUS, SignalState
from models.junctions import JUNCTIONS, MAX_OBS, N_ACTIONS

JunctionId = Annotated[str, Field(json_schema_extra={"enum": list(JUNCTIONS)})]
Timestamp = Annotated[int, Field(description="Milliseconds since the Unix epoch.")]
ActionStatus = Literal["success", "fallback_mode (inference service down)"]
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
    metadata: Any = Field(None, description="Free text label; logged and otherwise ignored.")


class ActionResponse(BaseModel):
    junctionId: str
    predictedAction: int = Field(ge=0, lt=N_ACTIONS)
    signalState: SignalState
    timestamp: Timestamp
    status: ActionStatus = Field(description=f"`{FALLBACK_STATUS}` comes with action 0 and RED.")


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
