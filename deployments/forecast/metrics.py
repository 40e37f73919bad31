"""Publishes a service's counts as Ray metrics once a second, off the hot path."""

from __future__ import annotations

import asyncio
from typing import Any

from ray.serve import metrics

from deployments.forecast.counts import ForecastCounts

PERIOD_S = 1.0


class ForecastMetrics:
    """Ray metrics of one replica; to be created in the replica's constructor.

    Args:
        service: first part of every metric's name.
        target: what predictions are counted by.
        column: what drift is told of.
    """

    def __init__(self, service: str, target: str, column: str) -> None:
        self._target, self._column = target, column
        self._predictions = metrics.Counter(
            f"{service}_predictions", "Predictions made", tag_keys=(target,)
        )
        self._batch_size = metrics.Histogram(
            f"{service}_batch_size",
            "Predictions per model call, a sample of the calls",
            boundaries=[1, 2, 4, 8, 16, 32, 64],
        )
        self._model_ms = metrics.Histogram(
            f"{service}_model_ms",
            "Duration of a model call, a sample of the calls",
            boundaries=[0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 5, 20],
        )
        self._drift = metrics.Gauge(
            f"{service}_input_drift",
            "Share of input values outside the training range, in a sample of the newest calls",
            tag_keys=(column,),
        )
        self._published: dict[str, int] = {}

    def publish(self, counts: ForecastCounts[Any]) -> None:
        """Publish what has come since the last call."""
        for target, total in list(counts.predictions.items()):
            new = total - self._published.get(target, 0)
            if new:
                self._predictions.inc(new, {self._target: target})
                self._published[target] = total
        batches, drift = counts.take_batches()
        for size, seconds in batches:
            self._batch_size.observe(size)
            self._model_ms.observe(max(seconds, 1e-6) * 1000)
        for column, share in drift.items():
            self._drift.set(share, {self._column: column})

    async def publish_forever(self, counts: ForecastCounts[Any]) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            self.publish(counts)
