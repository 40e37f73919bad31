"""What the deployments of both forecasts share."""

from __future__ import annotations

from typing import Any, Protocol

from deployments.forecast.counts import ForecastCounts
from deployments.forecast.metrics import ForecastMetrics
from deployments.forecast.model_slot import ModelSlot
from deployments.forecast.options import ForecastOptions, ForecastUserConfig
from deployments.metrics.publisher import Publisher


class ForecastService(Protocol):
    """What answers the requests."""

    slot: ModelSlot[Any]
    counts: ForecastCounts[Any]


class ForecastReplica:
    """Loads the model, swaps it, publishes metrics."""

    async def _start(
        self, options: ForecastOptions, service: ForecastService, metrics: ForecastMetrics
    ) -> None:
        self._options, self._slot = options, service.slot
        await self._slot.load(options.model_path)
        self._loaded = ForecastUserConfig()
        self._metrics = Publisher(metrics.publish)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the model; an artifact that cannot be served leaves the present one in place."""
        wanted = ForecastUserConfig.model_validate(user_config)
        if wanted != self._loaded:
            await self._slot.load(wanted.model_path or self._options.model_path)
            self._loaded = wanted

    def check_health(self) -> None:
        self._metrics.check_health()

    def __del__(self) -> None:
        self._metrics.stop()
