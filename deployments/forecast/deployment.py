"""The deployment of both forecasts, with its options and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import Field
from ray import serve
from ray.serve import Application, Deployment, metrics

from deployments.forecast.api import create_app
from deployments.forecast.service import ForecastService
from deployments.http.probes import Check
from deployments.metrics.exported import Total
from deployments.model_slot import ConfiguredModel, UserConfig
from deployments.replica import Observability, ReplicaBase

Service = ForecastService[Any, Any, Any, Any]


class ForecastUserConfig(UserConfig):
    """``user_config`` of a forecast's deployment."""

    path: str | None = Field(
        None,
        alias="model_path",
        description="File of the model, instead of the one that the environment names.",
    )


class ForecastMetrics:
    """Ray metrics of one replica; to be created in the replica."""

    def __init__(self, service: Service) -> None:
        self._service, name = service, service.name
        self._predictions = Total(f"{name}_predictions", "Predictions made", (service.counted_by,))
        self._batch_size = metrics.Histogram(
            f"{name}_batch_size",
            "Predictions per model call, a sample of the calls",
            boundaries=[1, 2, 4, 8, 16, 32, 64],
        )
        self._model_ms = metrics.Histogram(
            f"{name}_model_ms",
            "Duration of a model call, a sample of the calls",
            boundaries=[0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 5, 20],
        )
        self._drift = metrics.Gauge(
            f"{name}_input_drift",
            "Share of input values outside the training range, in a sample of the newest calls",
            tag_keys=(service.drift_of,),
        )

    def publish(self) -> None:
        """Publish what was counted since the last call."""
        self._predictions.publish(self._service.predictions)
        batches, drift = self._service.take_batches()
        for size, seconds in batches:
            self._batch_size.observe(size)
            self._model_ms.observe(max(seconds, 1e-6) * 1000)
        for column, share in drift.items():
            self._drift.set(share, {self._service.drift_of: column})


@serve.deployment(name="Forecast")
@serve.ingress()
class ForecastReplica(ReplicaBase):
    """One replica: serves a model over HTTP.

    Args:
        model_path: the model's file, unless ``user_config`` names another.
    """

    async def __init__(  # type: ignore[misc]
        self,
        service: type[Service],
        model_path: Path,
        observability: Observability,
    ) -> None:
        super().__init__(observability)
        self._service = service()
        self._model = ConfiguredModel(self._service.slot, str(model_path), ForecastUserConfig)
        self.checks["model"] = Check(
            lambda: self._service.slot.model is not None, "No model is loaded."
        )
        await self._model.start()

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = create_app(self._service, self.probes, self.access_log)
        return self.instrument(app, ForecastMetrics(self._service).publish, self._service)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the model; a file that cannot be served leaves the present one in place."""
        await self._model.reconfigure(user_config)


def bind(service: type[Service], model_path: Path, observability: Observability) -> Application:
    """Make the application of a forecast."""
    deployment: Deployment = ForecastReplica
    return deployment.options(name=service.name.title()).bind(service, model_path, observability)
