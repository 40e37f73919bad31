"""The deployment of Variant B: wires the service into a Serve replica."""

from __future__ import annotations

from fastapi import FastAPI
from ray import serve

from deployments.flow.api import create_app
from deployments.flow.service import FlowService
from deployments.forecast.metrics import ForecastMetrics
from deployments.forecast.options import ForecastOptions
from deployments.forecast.replica import ForecastReplica


@serve.deployment(name="Flow")
@serve.ingress()
class Flow(ForecastReplica):
    """One replica: serves the flow model over HTTP."""

    async def __init__(self, options: ForecastOptions) -> None:  # type: ignore[misc]
        self._service = FlowService()
        metrics = ForecastMetrics(self._service.counts, "flow", target="junction", column="feature")
        await self._start(options, self._service, metrics)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service, self._options.limits)
