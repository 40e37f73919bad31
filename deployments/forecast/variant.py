"""What is special about the application of one forecast; everything else is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from deployments.forecast.service import ForecastService


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Declaration of one forecast application."""

    name: str
    """The first part of its metrics' names; as a title, the name of its deployment."""

    description: str
    service: Callable[[], ForecastService[Any, Any, Any, Any]]

    path: str
    """Of the route that predicts."""

    max_body: int
    """Bytes of its request's body."""

    operation: Mapping[str, Any]
    """What the document says of that route: further arguments of ``FastRoutes.add``."""

    health: type[BaseModel]

    info_path: str
    """Of the route that tells about the model."""

    info: type[BaseModel]
    info_description: str

    counted_by: str
    """Metric tag of a prediction's target."""

    drift_of: str
    """Metric tag of an input's column."""

    @property
    def deployment(self) -> str:
        return self.name.title()
