"""Options of the engine, as ``args`` of an application in the serve config."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from deployments.options import Options

_RENAMED = {"store": "durable", "actor": "memory", "store_async": "memory"}


class StateOptions(Options):
    """Options of one application's states."""

    removed: ClassVar = {
        "restore_after_restart": "Delete it: states always continue after a restart.",
        "lease_s": "Delete it: no replica owns a state any more.",
        "loss_bound_s": "Delete it: a step is kept before it is answered. "
        "snapshot_period_s bounds what the loss of a machine costs.",
    }

    shards: int = Field(
        1,
        ge=1,
        le=64,
        description="Number of state actors that share the hidden states. Another number takes a "
        "stop of the application.",
    )
    durability: Literal["memory", "durable"] = Field(
        "memory",
        description="What must hold a step before it is answered. `memory`: the table in the "
        "machine's memory. `durable`: the store, too, so that the loss of a machine costs no step.",
    )
    snapshot_period_s: float = Field(
        1.0,
        gt=0,
        le=3600,
        description="Longest time from a step to its copy in the store, with `memory`.",
    )
    max_states: int = Field(
        100_000,
        ge=1,
        description="Maximum number of hidden states, of which each shard has an equal part. A "
        "request for one more is answered 503.",
    )
    run_ttl_s: float = Field(
        3600.0, gt=0, description="Time after which the states of an idle run are removed."
    )

    @field_validator("durability", mode="before")
    @classmethod
    def _refuse_old_names(cls, value: Any) -> Any:
        if value in _RENAMED:
            raise ValueError(f"{value!r} was removed. Set durability: {_RENAMED[value]}.")
        return value

    @property
    def max_states_per_shard(self) -> int:
        return max(1, self.max_states // self.shards)
