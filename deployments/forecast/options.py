"""Options of a forecast service in a serve config."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from deployments.model_slot import UserConfig
from deployments.options import Options


class ForecastOptions(Options):
    """Options of one forecast application, as ``args``. It has no options."""

    removed: ClassVar = {
        "model_path": "Name the file in the `user_config` of the deployment, as `model_path`.",
        "max_waiting": "Delete it: a replica limits its requests by how long they wait.",
        "max_body": "Delete it: a body has at most 64 KiB, for the flow forecast 1 MiB.",
    }


class ForecastUserConfig(UserConfig):
    """``user_config`` of a forecast's deployment."""

    path: str | None = Field(
        None,
        alias="model_path",
        description="File of the model, instead of the one that the environment names.",
    )
