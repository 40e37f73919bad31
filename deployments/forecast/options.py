"""What a replica of a forecast service is built from, and what can change while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict


class Limits(NamedTuple):
    """Bounds of one replica.

    Attributes:
        max_waiting: requests at work at once; more are refused with 503, so that no queue grows.
        max_body: bytes of a request.
    """

    max_waiting: int
    max_body: int


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
