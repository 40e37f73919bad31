"""Ray metrics of a forecast."""

from __future__ import annotations

from typing import Any

from ray.serve import metrics

from deployments.forecast.service import ForecastService
from deployments.metrics.exported import Total


class ForecastMetrics:
    """Ray metrics of one replica; to be created in the replica."""

    def __init__(self, service: ForecastService[Any, Any, Any, Any]) -> None:
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
