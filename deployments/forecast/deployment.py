"""The deployment of both forecasts: wires a variant's service into a Serve replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve import Application, Deployment

from deployments.forecast.api import create_app
from deployments.forecast.metrics import ForecastMetrics
from deployments.forecast.options import ForecastOptions, ForecastUserConfig
from deployments.forecast.variant import Variant
from deployments.metrics.publisher import Publisher
from deployments.model_slot import ConfiguredModel
from deployments.ray_private.serve import prepare_log


@serve.deployment(name="Forecast")
@serve.ingress()
class ForecastReplica:
    """One replica: serves a variant's model over HTTP.

    Args:
        model_path: the model's file, unless ``user_config`` names another.
    """

    async def __init__(  # type: ignore[misc]
        self, variant: Variant, options: ForecastOptions, model_path: str
    ) -> None:
        prepare_log()
        self._variant = variant
        self._options = options
        self._service = variant.service()
        self._model = ConfiguredModel(self._service.slot, model_path, ForecastUserConfig)
        await self._model.start()
        self._metrics = Publisher(ForecastMetrics(self._service.counts, variant).publish)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._variant, self._service, self._options)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the model; a file that cannot be served leaves the present one in place."""
        await self._model.reconfigure(user_config)

    def check_health(self) -> None:
        self._metrics.check_health()

    def __del__(self) -> None:
        self._metrics.stop()


def bind(variant: Variant, options: ForecastOptions, default_path: Path) -> Application:
    """Make the application of a variant.

    Args:
        default_path: the model's file, unless the options name another.
    """
    deployment: Deployment = ForecastReplica
    path = str(options.model_path or default_path)
    return deployment.options(name=variant.deployment).bind(variant, options, path)
