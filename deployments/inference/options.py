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
        description="Number of state actors that share the hidden states.",
        json_schema_extra={"unit": "actors"},
    )
    max_waiting: int = Field(
        1000,
        ge=1,
        description="Maximum number of requests that one replica works on at once; any further one "
        "is answered 503.",
        json_schema_extra={"unit": "requests"},
    )
    strict: bool = Field(
        False,
        description="Whether a prediction is answered only when its new hidden state is committed.",
    )
    snapshots: bool = Field(
        True, description="Whether copies of the hidden states are kept in the store."
    )
    snapshot_period_s: float = Field(
        1.0, gt=0, le=3600, description="Longest time from a commit to its copy in the store."
    )
    restore_after_restart: bool = Field(
        False,
        description="Whether hidden states continue from their copies after a full restart of Ray.",
    )
    max_states: int = Field(
        100_000,
        ge=1,
        description="Maximum number of hidden states that all shards keep together; a request for "
        "one more is answered 503.",
        json_schema_extra={"unit": "states"},
    )
    run_ttl_s: float = Field(3600.0, gt=0, description="Time after which an idle run is forgotten.")
    lease_s: float = Field(
        2.0,
        gt=0.2,
        le=60,
        description="Time for which a replica may step its states without hearing from the state "
        "actor.",
    )
    lease_margin_s: float = Field(
        0.25,
        ge=0.01,
        le=60,
        description="Time that the state actor waits, beyond the end of a replica's lease, before "
        "it passes on the replica's states.",
    )
    probe_after_s: float = Field(
        0.03,
        gt=0,
        le=60,
        description="Time after which the state actor asks Ray whether a replica lives that has "
        "not answered its recall.",
    )
    commit_delay_s: float = Field(
        0.008,
        ge=0,
        le=0.008,
        description="Delay of a commit, in which answers go first and further steps join it; a "
        "crash may cost the steps of this time.",
    )
    checkout_timeout_s: float = Field(
        4.0, gt=0, le=60, description="Longest time that a prediction waits for its hidden state."
    )
    shared_patience_s: float = Field(
        1.5,
        gt=0,
        le=60,
        description="Longest time that a prediction in a shared call waits for its hidden state. "
        "Must be below the `deadline_s` of the gateway: otherwise one state out of reach would "
        "fail the whole call.",
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
        None, alias="agent_path", description="File of the policy, instead of `MAPPO_AGENT_PATH`."
    )
