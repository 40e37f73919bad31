"""What a forecast service can be told in a serve config."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from deployments.model_slot import UserConfig

MaxBody = Annotated[
    int,
    Field(
        ge=1024,
        description="Of a request; a longer one is 413.",
        json_schema_extra={"unit": "bytes"},
    ),
]


class ForecastOptions(BaseModel):
    """Options of one forecast application, as ``args``; each variant has its own ``max_body``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_path: Path | None = Field(
        None, description="The model's file, instead of that of the environment."
    )
    max_waiting: int = Field(
        1000,
        ge=1,
        description="Worked on at once by one replica; more are answered 503.",
        json_schema_extra={"unit": "requests"},
    )
    max_body: MaxBody


class ForecastUserConfig(UserConfig):
    """``user_config`` of a forecast's deployment."""

    path: str | None = Field(
        None,
        alias="model_path",
        description="The model's file, instead of the one that the application was built with.",
    )
