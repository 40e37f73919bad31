"""What the inference service can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from deployments.model_slot import UserConfig


class InferenceOptions(BaseModel):
    """Options of one inference application: its replicas, and the authority over its states."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shards: int = Field(
        1,
        ge=1,
        le=64,
        description="State actors that share the hidden states.",
        json_schema_extra={"unit": "actors"},
    )
    max_waiting: int = Field(
        1000,
        ge=1,
        description="Worked on at once by one replica; more are answered 503.",
        json_schema_extra={"unit": "requests"},
    )
    strict: bool = Field(
        False, description="Answer a prediction only when its new hidden state is committed."
    )
    snapshots: bool = Field(True, description="Keep copies of the hidden states in the store.")
    snapshot_period_s: float = Field(
        1.0, gt=0, le=3600, description="Longest time from a commit to its copy in the store."
    )
    restore_after_restart: bool = Field(
        False, description="Continue from the copies after a full restart of Ray."
    )
    max_states: int = Field(
        100_000,
        ge=1,
        description="Kept by all shards together; more are answered 503.",
        json_schema_extra={"unit": "states"},
    )
    run_ttl_s: float = Field(3600.0, gt=0, description="An idle run is forgotten after this.")
    lease_s: float = Field(
        2.0,
        gt=0.2,
        le=60,
        description="A replica may step its states for so long without hearing of the authority.",
    )
    lease_margin_s: float = Field(
        0.25,
        ge=0.01,
        le=60,
        description="The authority waits this much longer than the replicas before it passes on "
        "the states of a lease that has run out.",
    )
    probe_after_s: float = Field(
        0.03,
        gt=0,
        le=60,
        description="After a recall unanswered for so long, ask Ray whether the owner lives.",
    )
    commit_delay_s: float = Field(
        0.008,
        ge=0,
        le=0.008,
        description="Coalesces commits and lets the answers go first; a crash may cost the steps "
        "of this time.",
    )
    checkout_timeout_s: float = Field(
        4.0, gt=0, le=60, description="Longest wait of a prediction for its hidden state."
    )
    shared_patience_s: float = Field(
        1.5,
        gt=0,
        le=60,
        description="The same for predictions that share a call. Must be below the `deadline_s` of "
        "the gateway: else one state out of reach would fail the whole call.",
    )

    @property
    def listen_s(self) -> float:
        """Longest silence of the long-poll that renews the lease: three may fail in a row."""
        return self.lease_s / 4

    @property
    def max_states_per_shard(self) -> int:
        return max(1, self.max_states // self.shards)


class InferenceUserConfig(UserConfig):
    """``user_config`` of the deployment Inference. Hidden states stay when the policy changes."""

    path: str | None = Field(
        None, alias="agent_path", description="The policy's file, instead of `MAPPO_AGENT_PATH`."
    )
