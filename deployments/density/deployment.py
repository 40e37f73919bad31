"""The deployment of Variant A: wires the service into a Serve replica."""

from __future__ import annotations

from fastapi import FastAPI
from ray import serve

from deployments.density.api import create_app
from deployments.density.service import DensityService
from deployments.forecast.metrics import ForecastMetrics
from deployments.forecast.options import ForecastOptions
from deployments.forecast.replica import ForecastReplica


@serve.deployment(name="Density")
@serve.ingress()
class Density(ForecastReplica):
    """One replica: serves the density model over HTTP."""

    async def __init__(self, options: ForecastOptions) -> None:  # type: ignore[misc]
        self._service = DensityService()
        metrics = ForecastMetrics(self._service.counts, "density", target="edges", column="edge")
        await self._start(options, self._service, metrics)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service, self._options.limits)
