"""The deployment of both forecasts: wires a variant's service into a Serve replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve import Application, Deployment

from deployments.forecast.api import create_app
from deployments.forecast.options import ForecastUserConfig
from deployments.forecast.telemetry import ForecastMetrics, ForecastReporter
from deployments.forecast.variant import Variant
from deployments.http.probes import Check
from deployments.model_slot import ConfiguredModel
from deployments.replica import Observability, ReplicaBase


@serve.deployment(name="Forecast")
@serve.ingress()
class ForecastReplica(ReplicaBase):
    """One replica: serves a variant's model over HTTP.

    Args:
        model_path: the model's file, unless ``user_config`` names another.
    """

    async def __init__(  # type: ignore[misc]
        self,
        variant: Variant,
        model_path: Path,
        observability: Observability | None = None,
    ) -> None:
        super().__init__(observability)
        self._variant = variant
        self._service = variant.service()
        self._model = ConfiguredModel(self._service.slot, str(model_path), ForecastUserConfig)
        self.checks["model"] = Check(
            lambda: self._service.slot.model is not None, "No model is loaded."
        )
        await self._model.start()

    def __serve_build_asgi_app__(self) -> FastAPI:
        service, variant = self._service, self._variant
        app = create_app(variant, service, self.probes, self.access_log)
        metrics = ForecastMetrics(service.counts, variant)
        reporter = ForecastReporter(service.counts, service.watched)
        return self.instrument(app, metrics.publish, reporter)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the model; a file that cannot be served leaves the present one in place."""
        await self._model.reconfigure(user_config)


def bind(
    variant: Variant,
    model_path: Path,
    observability: Observability | None = None,
) -> Application:
    """Make the application of a variant.

    Args:
        model_path: the model's file, unless ``user_config`` names another.
    """
    deployment: Deployment = ForecastReplica
    return deployment.options(name=variant.deployment).bind(variant, model_path, observability)
