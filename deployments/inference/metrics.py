"""The service's counts as Ray metrics.

Ray's exporter offers them as ``ray_serve_…`` or ``ray_inference_…`` on every node's metrics port.
"""

from __future__ import annotations

from dataclasses import asdict

from ray.serve import metrics

from deployments.inference.service import InferenceService
from deployments.metrics.total import Total

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

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._predictions = Total(
            "inference_predictions", "Predictions made", ("junction", "action")
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
        self._leases = {
            name: Total(f"inference_{name}", help, ()) for name, help in _COUNTER_HELP.items()
        }
        self._without_place = Total(
            "inference_requests_without_place", "Requests refused at the cap of hidden states", ()
        )
        self._commit_lag_ms = metrics.Gauge(
            "inference_commit_lag_ms", "From a step to the acknowledgement of its commit, latest"
        )

    def publish(self) -> None:
        """Publish what has come since the last call."""
        counts = self._service.counts
        self._predictions.publish(counts.predictions)
        for size, seconds in counts.batches.take():
            self._batch_size.observe(size)
            self._step_ms.observe(max(seconds, 1e-6) * 1000)
        self._without_place.publish({(): counts.without_place})
        leases = asdict(self._service.leases.counts)
        for name, total in self._leases.items():
            total.publish({(): leases[name]})
        self._commit_lag_ms.set(leases["commit_lag_s"] * 1000)
