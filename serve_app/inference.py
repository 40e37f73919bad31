"""Builder of the inference application.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from pydantic import BaseModel, ConfigDict, Field
from ray.serve import Application

from deployments.inference.deployment import Inference, InferenceOptions
from deployments.inference.protocol import LeaseSettings
from serve_app.configured_store import open_configured_store, require_shared_store
from serve_app.settings import Settings


class InferenceArgs(BaseModel):
    """``args`` of the application in a serve config. Times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shards: int = Field(1, ge=1, le=64, description="State actors that share the hidden states.")
    max_waiting: int = Field(1000, ge=1, description="Requests at work at once in one replica.")
    strict: bool = Field(False, description="Answer only when the new hidden state is committed.")
    snapshots: bool = Field(True, description="Keep copies of the hidden states in the store.")
    restore_after_restart: bool = Field(
        False, description="Continue from the copies after a full restart of Ray."
    )
    lease_s: float = Field(2.0, gt=0.2, le=60)
    commit_delay_s: float = Field(0.008, ge=0, le=0.008, description="Coalesces commits.")
    run_ttl_s: float = Field(3600.0, gt=0, description="An idle run is forgotten after this.")
    max_states: int = Field(100_000, ge=1, description="Hidden states kept; more answer 503.")


def build(args: InferenceArgs) -> Application:
    """Target of ``import_path`` in the serve config."""
    require_shared_store()
    settings = Settings()
    options = InferenceOptions(
        agent_path=str(settings.mappo_agent_path),
        open_store=open_configured_store if args.snapshots else None,
        shards=args.shards,
        max_waiting=args.max_waiting,
        leases=LeaseSettings(
            lease_s=args.lease_s,
            listen_s=args.lease_s / 4,
            commit_delay_s=args.commit_delay_s,
            strict=args.strict,
            run_ttl_s=args.run_ttl_s,
            max_states=max(1, args.max_states // args.shards),
            restore_after_restart=args.restore_after_restart,
        ),
    )
    application: Application = Inference.bind(options)  # type: ignore[attr-defined]
    return application
