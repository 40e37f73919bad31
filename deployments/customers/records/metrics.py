"""The operations of a record service as Ray metrics."""

from __future__ import annotations

from collections import Counter

from ray.serve import metrics

from deployments.customers.records.errors import InvalidMobileNumber, RecordsUnavailable
from deployments.metrics.sampled import Sampled
from deployments.metrics.total import Total

OPERATIONS = ("create", "fetch", "update", "delete")
_EXPECTED = ("ok", RecordsUnavailable.outcome)  # sooner or later, and told of from the start
SAMPLE = 200  # latencies a second; recording each would cost more than a look-up
LATENCY_BUCKETS_MS = [0.25, 0.5, 1, 2, 5, 10, 25, 50, 100, 250, 1000, 5000]


class RecordMetrics:
    """Ray metrics of one replica; to be created in the replica's constructor."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._operations = Total(
            "customer_record_operations",
            "Operations on customer records, by service and outcome.",
            ("service", "operation", "outcome"),
        )
        self._latency_ms = metrics.Histogram(
            "customer_record_store_latency_ms",
            description="Time of an operation that reached the store, almost all of it in there; "
            "a sample of the operations.",
            boundaries=LATENCY_BUCKETS_MS,
            tag_keys=("service", "operation"),
        )
        self._latency_ms.set_default_tags({"service": service})
        self._counts: Counter[tuple[str, str, str]] = Counter(
            {(service, each, outcome): 0 for each in OPERATIONS for outcome in _EXPECTED}
        )
        self._sample: Sampled[tuple[str, float]] = Sampled(SAMPLE)

    def observe(self, operation: str, outcome: str, latency_ms: float) -> None:
        """Note one operation."""
        self._counts[self._service, operation, outcome] += 1
        if outcome != InvalidMobileNumber.outcome:
            self._sample.observe((operation, latency_ms))

    def publish(self) -> None:
        """Publish what has come since the last call."""
        self._operations.publish(self._counts)
        for operation, latency_ms in self._sample.take():
            self._latency_ms.observe(latency_ms, {"operation": operation})
