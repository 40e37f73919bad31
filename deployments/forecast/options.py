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
        description="Longest body of a request; a longer one is answered 413.",
        json_schema_extra={"unit": "bytes"},
    ),
]


class ForecastOptions(BaseModel):
    """Options of one forecast application, as ``args``; each variant has its own ``max_body``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_path: Path | None = Field(
        None, description="File of the model, instead of the one that the environment names."
    )
    max_waiting: int = Field(
        1000,
        ge=1,
        description="Maximum number of requests that one replica works on at once; any further one "
        "is answered 503. It takes on fewer while requests wait longer than 80 ms for their turns.",
        json_schema_extra={"unit": "requests"},
    )
    max_body: MaxBody


class ForecastUserConfig(UserConfig):
    """``user_config`` of a forecast's deployment."""

    path: str | None = Field(
        None,
        alias="model_path",
        description="File of the model, instead of the one that the application was built with.",
    )
