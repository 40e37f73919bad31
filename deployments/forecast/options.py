"""Options of a forecast service in a serve config."""

from __future__ import annotations

from pydantic import Field

from deployments.model_slot import UserConfig
from deployments.options import Options


class ForecastOptions(Options):
    """Options of one forecast application, as ``args``. It has no options."""


class ForecastUserConfig(UserConfig):
    """``user_config`` of a forecast's deployment."""

    path: str | None = Field(
        None,
        alias="model_path",
        description="File of the model, instead of the one that the environment names.",
    )
