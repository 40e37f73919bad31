"""The deployment of Variant A: wires the service into a Serve replica."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI
from ray import serve

from deployments.density.api import create_app
from deployments.density.service import DensityService
from deployments.forecast.metrics import ForecastMetrics
from deployments.forecast.options import ForecastOptions, ForecastUserConfig


@serve.deployment(name="Density")
@serve.ingress()
class Density:
    """One replica: serves the density model over HTTP."""

    async def __init__(self, options: ForecastOptions) -> None:
        self._options = options
        self._service = DensityService()
        await self._service.slot.load(options.model_path)
        self._loaded = ForecastUserConfig()
        metrics = ForecastMetrics("density", target="edges", column="edge")
        self._metrics = asyncio.create_task(metrics.publish_forever(self._service.counts))

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service, self._options.limits)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the model; an artifact that cannot be served leaves the present one in place."""
        wanted = ForecastUserConfig.model_validate(user_config)
        if wanted != self._loaded:
            await self._service.slot.load(wanted.model_path or self._options.model_path)
            self._loaded = wanted

    def check_health(self) -> None:
        if self._metrics.done():
            raise RuntimeError("the metrics loop has died") from self._metrics.exception()

    def __del__(self) -> None:
        self._metrics.cancel()
