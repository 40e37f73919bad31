"""Options of the engine, as ``args`` of an application in the serve config."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from deployments.options import Options

Durability = Literal["memory", "store_async", "actor", "store"]


class StateOptions(Options):
    """Options of one application's states: of its replicas, and of the authority.

    Times that an operator has no reason to set are fixed fractions of ``lease_s`` or
    ``loss_bound_s``, so that they keep their proportions.
    """

    removed: ClassVar = {
        "strict": "Set durability: actor, or durability: store in place of strict and durable.",
        "durable": "Set durability: store_async, or durability: store in place of both.",
        "snapshots": "Delete it: snapshots are always kept.",
        "tenure_s": "Delete it: lease_s sets this time, too.",
        "lease_margin_s": "Delete it: it is an eighth of lease_s.",
        "probe_after_s": "Delete it: it is 0.03 s.",
        "commit_delay_s": "Delete it: it is 0.4 of loss_bound_s.",
        "commit_timeout_s": "Delete it: it is twice lease_s.",
        "checkout_timeout_s": "Delete it: it is twice lease_s.",
    }

    shards: int = Field(
        1,
        ge=1,
        le=64,
        description="Number of state actors that share the hidden states.",
        json_schema_extra={"unit": "actors"},
    )
    durability: Durability = Field(
        "memory",
        description="What must hold a step before it is answered. `memory`: the replica; the state "
        "actor has it within `loss_bound_s`, the store within `snapshot_period_s`. "
        "`store_async`: the replica; the store has it within `loss_bound_s`. "
        "`actor`: the state actor. `store`: the store, so that no answered step is ever lost. "
        "With `store` and `store_async`, states continue after a full restart of Ray.",
    )
    snapshot_period_s: float = Field(
        1.0,
        gt=0,
        le=3600,
        description="Longest time from a commit to its snapshot in the store, unless `durability` "
        "is `store` or `store_async`.",
    )
    restore_after_restart: bool = Field(
        False,
        description="Whether hidden states continue from their snapshots after a full restart of "
        "Ray. They always do if `durability` is `store` or `store_async`.",
    )
    max_states: int = Field(
        100_000,
        ge=1,
        description="Maximum number of hidden states over all shards. A request for one more is "
        "answered 503.",
        json_schema_extra={"unit": "states"},
    )
    run_ttl_s: float = Field(
        3600.0, gt=0, description="Time after which the states of an idle run are removed."
    )
    lease_s: float = Field(
        2.0,
        gt=0.2,
        le=60,
        description="Time for which a replica may step its states without a message from the state "
        "actor, and a state actor may act without a confirmation from the store or Ray.",
    )
    loss_bound_s: float = Field(
        0.010,
        gt=0,
        le=1,
        description="Age of the oldest uncommitted step from which on responses wait for their "
        "commit. A crash costs at most the steps of this time.",
    )

    @property
    def responses_wait(self) -> bool:
        """Whether every response waits for the commit of its step."""
        return self.durability in ("actor", "store")

    @property
    def commits_reach_store(self) -> bool:
        """Whether a commit is acknowledged only when its snapshot is in the store."""
        return self.durability in ("store", "store_async")

    @property
    def restores(self) -> bool:
        """Whether states continue after a restart of Ray; always, if commits reach the store."""
        return self.restore_after_restart or self.commits_reach_store

    @property
    def lease_margin_s(self) -> float:
        """Time that the authority waits beyond the end of a lease before it breaks it."""
        return self.lease_s / 8

    @property
    def leader_lease_s(self) -> float:
        """Time for which an authority may act after it last confirmed its term."""
        return self.lease_s

    @property
    def listen_s(self) -> float:
        """Longest silence of the long poll that renews the lease: three may fail in a row."""
        return self.lease_s / 4

    @property
    def open_timeout_s(self) -> float:
        """Longest wait for a session: two attempts fit into a lease."""
        return self.lease_s * 0.4

    @property
    def checkout_timeout_s(self) -> float:
        """Longest time that a request waits for its state: an owner's lease may have to expire."""
        return self.lease_s * 2

    @property
    def commit_timeout_s(self) -> float:
        """Longest time that a response waits for its commit."""
        return self.lease_s * 2

    @property
    def commit_delay_s(self) -> float:
        """Delay of a commit, in which responses go first and further steps join it."""
        return 0.0 if self.responses_wait else self.loss_bound_s * 0.4

    @property
    def max_states_per_shard(self) -> int:
        return max(1, self.max_states // self.shards)
