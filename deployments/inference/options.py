"""What the inference service can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from deployments.model_slot import UserConfig


class InferenceOptions(BaseModel):
    """Options of one inference application: its replicas, and the authority over its states."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: Path | None = Field(
        None,
        description="File of the road network, instead of `NETWORK_PATH`. A relative path counts "
        "from the folder of the product.",
    )
    agent_path: Path | None = Field(
        None,
        description="File of the policy, instead of `MAPPO_AGENT_PATH`; the `agent_path` of the "
        "`user_config` goes before it.",
    )
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
        "is answered 503. It takes on fewer while requests wait longer than 80 ms for their turns.",
        json_schema_extra={"unit": "requests"},
    )
    strict: bool = Field(
        False,
        description="Whether a prediction is answered only when its new hidden state is committed.",
    )
    durable: bool = Field(
        False,
        description="Whether a hidden state counts as committed only when its copy is in the "
        "store; together with `strict`, no answered step is lost whatever dies.",
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
    leader_lease_s: float = Field(
        2.0,
        gt=0.2,
        le=60,
        description="Time for which a state actor may act since the store, or Ray while the store "
        "is out of reach, last told it that its place is its own.",
    )
    probe_after_s: float = Field(
        0.03,
        gt=0,
        le=60,
        description="Time after which the state actor asks Ray whether a replica lives that has "
        "not answered its recall.",
    )
    commit_delay_s: float = Field(
        0.004,
        ge=0,
        le=0.05,
        description="Delay of a commit, in which answers go first and further steps join it. Must "
        "be below `loss_bound_s`.",
    )
    loss_bound_s: float = Field(
        0.010,
        gt=0,
        le=1,
        description="Age of the oldest step that is not committed, from which on answers wait for "
        "their commit; a crash may cost the steps of this time.",
    )
    commit_timeout_s: float = Field(
        4.0,
        gt=0,
        le=60,
        description="Longest time that an answer waits for its commit; then it is a 503 with the "
        "code `outcome_unknown`.",
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

    @model_validator(mode="after")
    def _commits_within_the_bound(self) -> InferenceOptions:
        if self.commit_delay_s >= self.loss_bound_s:
            raise ValueError("commit_delay_s must be below loss_bound_s")
        return self

    @model_validator(mode="after")
    def _durable_by_copies(self) -> InferenceOptions:
        if self.durable and not self.snapshots:
            raise ValueError("durable needs snapshots")
        return self

    @property
    def listen_s(self) -> float:
        """Longest silence of the long-poll that renews the lease: three may fail in a row."""
        return self.lease_s / 4

    @property
    def open_timeout_s(self) -> float:
        """Longest wait for a session: a lease is long enough to ask twice."""
        return self.lease_s * 0.4

    @property
    def max_states_per_shard(self) -> int:
        return max(1, self.max_states // self.shards)


_NAME_OF_STATES = "[A-Za-z0-9._-]{1,64}"


class CandidateConfig(UserConfig):
    """A second policy beside the one in service."""

    path: str = Field(alias="agent_path", description="File of the candidate.")
    states: str = Field(
        pattern=f"^{_NAME_OF_STATES}$",
        description="Name of the candidate's hidden states, which it shares with no other policy.",
        json_schema_extra={"range": "1 to 64 of `A-Z a-z 0-9 . _ -`"},
    )
    mode: Literal["canary", "shadow"] = Field(
        description="`canary`: it answers its share of the runs. `shadow`: it steps beside the "
        "policy in service, without answering.",
    )
    share: float = Field(
        ge=0,
        le=1,
        description="Share of the runs that it answers, or steps beside; a larger share has the "
        "runs of a smaller one.",
        json_schema_extra={"unit": "of 1"},
    )


class InferenceUserConfig(UserConfig):
    """``user_config`` of the deployment Inference.

    Hidden states stay when the policy changes, unless ``states`` does.
    """

    path: str | None = Field(
        None, alias="agent_path", description="File of the policy, instead of `MAPPO_AGENT_PATH`."
    )
    states: str = Field(
        "",
        pattern=f"^({_NAME_OF_STATES})?$",
        description="Name of the hidden states; a promoted candidate keeps its own.",
        json_schema_extra={"default": "", "range": "as `candidate.states`, or empty"},
    )
    candidate: CandidateConfig | None = Field(
        None, description="A second policy that is tried beside this one."
    )

    @model_validator(mode="after")
    def _states_of_their_own(self) -> InferenceUserConfig:
        if self.candidate is not None and self.candidate.states == self.states:
            raise ValueError("states and candidate.states must differ")
        return self
