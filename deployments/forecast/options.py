"""What a replica of a forecast service is built from, and what can change while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from deployments.forecast.fast_path import Limits


@dataclass(frozen=True)
class ForecastOptions:
    """Built by the application's builder. ``user_config`` can name another model."""

    model_path: str
    limits: Limits


class ForecastUserConfig(BaseModel):
    """``user_config``: ``serve deploy`` with another value swaps the model without a restart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_path: str | None = None  # None: the path that the application was built with
    revision: int | str | None = None  # change it to read the same path again
