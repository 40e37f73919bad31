"""Builder of the gateway application.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from pydantic import BaseModel, ConfigDict, Field, field_validator
from ray.serve import Application

from deployments.gateway.deployment import CallBy, Gateway, GatewayOptions
from deployments.gateway.inference_calls.http_transport import base_of
from deployments.gateway.login import LoginLimits
from deployments.gateway.observations import check_capacities
from models.lane_capacities import LANE_CAPACITIES
from serve_app.configured_store import open_configured_store, require_shared_store
from serve_app.credentials.first_user import configured_users
from serve_app.credentials.signing_key import configured_signing_key, signing_key
from serve_app.settings import Settings


class GatewayArgs(BaseModel):
    """``args`` of the application in a serve config. Times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deadline_s: float = Field(2.0, gt=0, le=60, description="For an answer of the inference.")
    breaker_failures: int = Field(5, ge=1, description="In a row, that stop the asking.")
    breaker_pause_s: float = Field(1.0, gt=0, le=60, description="Until it is asked again.")
    max_waiting: int = Field(
        1000, ge=1, le=1000, description="Requests at work at once in one replica."
    )
    login_attempts_per_user: int = Field(10, ge=1)
    login_attempts_per_address: int = Field(300, ge=1)
    login_window_s: int = Field(60, ge=1)
    clock_skew_s: float = Field(5.0, ge=0, le=60)
    trust_forwarded_for: bool = Field(
        True, description="Take a client's address from X-Forwarded-For, as the edge sets it."
    )
    inference_app: str = Field("inference", description="Called when no URL is configured.")
    call_by: CallBy = Field(
        "http",
        description="Call it at this node's HTTP front, or by Serve handle: slower, but right where"
        " the front speaks TLS, or not every node has one.",
    )
    lane_capacities: dict[str, list[float]] = Field(
        LANE_CAPACITIES, description="Vehicles that fit on each incoming lane, by junction."
    )

    @field_validator("lane_capacities")
    @classmethod
    def _fit_the_junctions(cls, value: dict[str, list[float]]) -> dict[str, list[float]]:
        check_capacities(value)
        return value


def build(args: GatewayArgs) -> Application:
    """Target of ``import_path`` in the serve config.

    Raises:
        InsecureSettingsError: no safe signing key.
        ValueError: the inference URL is none.
    """
    require_shared_store()
    settings = Settings()
    if settings.rl_inference_service_url is not None:
        base_of(settings.rl_inference_service_url)
    signing_key(settings)  # refuses an unsafe one before anything is started
    options = GatewayOptions(
        read_secret=configured_signing_key,
        open_store=open_configured_store,
        lane_capacities=args.lane_capacities,
        users=configured_users(settings),
        token_lifetime_s=settings.jwt_expiration_minutes * 60,
        clock_skew_s=args.clock_skew_s,
        login_limits=LoginLimits(
            args.login_attempts_per_user, args.login_attempts_per_address, args.login_window_s
        ),
        inference_url=settings.rl_inference_service_url,
        inference_app=args.inference_app,
        call_by=args.call_by,
        deadline_s=args.deadline_s,
        breaker_failures=args.breaker_failures,
        breaker_pause_s=args.breaker_pause_s,
        max_waiting=args.max_waiting,
        trust_forwarded_for=args.trust_forwarded_for,
    )
    application: Application = Gateway.bind(options)  # type: ignore[attr-defined]
    return application
