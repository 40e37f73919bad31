"""The deployment of Variant B: wires the service into a Serve replica."""

from __future__ import annotations

import asyncio
from typing import Any

import torch
from fastapi import FastAPI
from ray import serve

from deployments.flow.api import create_app
from deployments.flow.service import FlowService
from deployments.forecast.metrics import ForecastMetrics
from deployments.forecast.options import ForecastOptions, ForecastUserConfig


@serve.deployment(name="Flow")
@serve.ingress()
class Flow:
    """One replica: serves the flow model over HTTP."""

    async def __init__(self, options: ForecastOptions) -> None:
        torch.set_num_threads(
            1
        )  # replicas are the unit of parallelism; a batch is too small to split
        self._options = options
        self._service = FlowService()
        await self._service.slot.load(options.model_path)
        self._loaded = ForecastUserConfig()
        metrics = ForecastMetrics("flow", target="junction", column="feature")
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
