"""The deployment of both forecasts, with its options: wires a service into a Serve replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import Field
from ray import serve
from ray.serve import Application, Deployment

from deployments.forecast.api import create_app
from deployments.forecast.service import ForecastService
from deployments.forecast.telemetry import ForecastMetrics
from deployments.http.probes import Check
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
