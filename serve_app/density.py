"""Builder of the density application, Variant A.

Without postponed annotations: Ray reads the class of ``args`` from the builder's signature.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from ray.serve import Application

from deployments.density.api import LIMITS
from deployments.density.deployment import Density
from deployments.forecast.options import ForecastOptions, Limits
from serve_app.settings import Settings


class DensityArgs(BaseModel):
    """``args`` of the application in a serve config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_path: Path | None = Field(None, description="Instead of DENSITY_MODEL_PATH.")
    max_waiting: int = Field(
        LIMITS.max_waiting, ge=1, description="Requests at work at once in one replica."
    )
    max_body: int = Field(LIMITS.max_body, ge=1024, description="Bytes of a request.")


def build(args: DensityArgs) -> Application:
    """Target of ``import_path`` in the serve config."""
    path = args.model_path or Settings().density_model_path
    options = ForecastOptions(str(path), Limits(args.max_waiting, args.max_body))
    application: Application = Density.bind(options)  # type: ignore[attr-defined]
    return application
