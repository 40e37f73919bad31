"""Publishes the service's counts as Ray metrics once a second, off the hot path.

Ray's exporter offers them as ``ray_serve_…`` or ``ray_inference_…`` on every node's metrics port.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields

from ray.serve import metrics

from deployments.inference.owned_state import LeaseCounts
from deployments.inference.service import InferenceService

PERIOD_S = 1.0

_COUNTER_HELP = {
    "checkouts": "Hidden states that a replica has become the owner of",
    "recalls": "Hidden states given back because another replica asked",
    "commits": "Messages that carried stepped states to the authority",
    "states_committed": "Hidden states committed",
    "states_refused": "Hidden states whose commit was refused: another replica owned them",
    "sessions": "Sessions opened with the authority; more than one per replica tells of restarts",
}


class InferenceMetrics:
    """Ray metrics of one replica; to be created in the replica's constructor."""

    def __init__(self) -> None:
        self._predictions = metrics.Counter(
            "inference_predictions", "Predictions made", tag_keys=("junction", "action")
        )
        self._step_ms = metrics.Histogram(
            "inference_step_ms",
            "Duration of a batched GRU step, a sample of the batches",
            boundaries=[0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 5, 20],
        )
        self._batch_size = metrics.Histogram(
            "inference_batch_size",
            "Rows of a batched GRU step, a sample of the batches",
            boundaries=[1, 2, 4, 8, 16, 32, 64, 128, 256],
        )
        self._lease_counters = {
            name: metrics.Counter(f"inference_{name}", help) for name, help in _COUNTER_HELP.items()
        }
        self._commit_lag_ms = metrics.Gauge(
            "inference_commit_lag_ms", "From a step to the acknowledgement of its commit, latest"
        )
        self._published_predictions: dict[tuple[str, int], int] = {}
        self._published_leases = LeaseCounts()

    def publish(self, service: InferenceService) -> None:
        """Publish what has come since the last call."""
        counts = service.counts
        for (junction, action), total in list(counts.predictions.items()):
            new = total - self._published_predictions.get((junction, action), 0)
            if new:
                self._predictions.inc(new, {"junction": junction, "action": str(action)})
                self._published_predictions[junction, action] = total
        batches, counts.batches = counts.batches, []
        for size, seconds in batches:
            self._batch_size.observe(size)
            self._step_ms.observe(max(seconds, 1e-6) * 1000)
        self._publish_leases(service.leases.counts)

    def _publish_leases(self, now: LeaseCounts) -> None:
        for field in fields(LeaseCounts):
            if field.name in self._lease_counters:
                new = getattr(now, field.name) - getattr(self._published_leases, field.name)
                if new:
                    self._lease_counters[field.name].inc(new)
        self._commit_lag_ms.set(now.commit_lag_s * 1000)
        self._published_leases = now

    async def publish_forever(self, service: InferenceService) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            self.publish(service)
