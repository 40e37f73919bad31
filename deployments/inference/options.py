"""Options of the inference service: ``args`` and ``user_config`` in the serve config."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from deployments.model_slot import UserConfig
from deployments.stateful.options import StateOptions


class InferenceOptions(StateOptions):
    """Options of one inference application: its replicas, and its hidden states."""

    network: Path | None = Field(
        None,
        description="File of the road network, instead of `NETWORK_PATH`. For a relative "
        "path, `greenwave` looks in the product, then in the config's folder.",
    )
    agent_path: Path | None = Field(
        None,
        description="File of the policy, instead of `MAPPO_AGENT_PATH`; that of the `user_config` "
        "takes precedence.",
    )
    diagnose_detectors: bool = Field(
        False,
        description="Whether estimates replace what failed detectors read. The network file must "
        "have states and links.",
    )


_NAMESPACE = "[A-Za-z0-9._-]{1,64}"


class CanaryConfig(UserConfig):
    """A second policy beside the one in service."""

    path: str = Field(alias="agent_path", description="Its file.")
    states: str = Field(
        pattern=f"^{_NAMESPACE}$",
        description="Name of the canary's hidden states, which it shares with no other policy.",
        json_schema_extra={"range": "1 to 64 of `A-Z a-z 0-9 . _ -`"},
    )
    mode: Literal["canary", "shadow"] = Field(
        description="`canary`: it answers its share of the runs. `shadow`: it steps beside the "
        "policy in service, without answering.",
    )
    share: float = Field(
        ge=0,
        le=1,
        description="Share of the runs that it answers, or steps beside.",
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
        pattern=f"^({_NAMESPACE})?$",
        description="Name of the hidden states; a promoted canary keeps its own.",
        json_schema_extra={"default": "", "range": "as `canary.states`, or empty"},
    )
    canary: CanaryConfig | None = Field(None, description="A second policy beside this one.")

    @model_validator(mode="after")
    def _separate_states(self) -> InferenceUserConfig:
        if self.canary is not None and self.canary.states == self.states:
            raise ValueError("states and canary.states must differ")
        return self
