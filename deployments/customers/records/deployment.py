"""The deployment of the record services, with its options and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

from fastapi import FastAPI
from pydantic import Field
from ray import serve
from ray.serve import metrics

from deployments.customers.records.api import create_app
from deployments.customers.records.errors import INVALID, RecordsUnavailable
from deployments.customers.records.record_type import RecordType
from deployments.customers.records.service import RecordService
from deployments.http.probes import store_check
from deployments.metrics.exported import Total
from deployments.metrics.sampled import Sampled
from deployments.options import Options
from deployments.replica import Observability, ReplicaBase
from deployments.store import Store

OPERATIONS = ("create", "fetch", "update", "delete")
_EXPECTED = ("ok", RecordsUnavailable.OUTCOME)  # exported at 0 from the start
SAMPLE = 200  # latencies a second: recording each would cost more than a look-up
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
        if outcome != INVALID:
            self._sample.observe((operation, latency_ms))

    def publish(self) -> None:
        """Publish what was counted since the last call."""
        self._operations.publish(self._counts)
        for operation, latency_ms in self._sample.take():
            self._latency_ms.observe(latency_ms, {"operation": operation})


class RecordOptions(Options):
    """Options of one record application."""

    record: Literal["accounts", "cards", "loans"] = Field(
        description="Type of the records, a module of `deployments/customers`."
    )


@serve.deployment(name="CustomerRecords")
@serve.ingress()
class CustomerRecords(ReplicaBase):
    """One replica of one record service; all its data is in the store."""

    async def __init__(  # type: ignore[misc]
        self,
        record_type: RecordType,
        open_store: Callable[[], Store],
        observability: Observability,
    ) -> None:
        super().__init__(observability)
        store = open_store()
        self._record_metrics = RecordMetrics(record_type.name)
        self._service = RecordService(record_type, store, self._record_metrics.observe)
        self.checks["store"] = store_check(store)
        self.close_at_end(store.close)

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = create_app(self._service, self.probes, self.access_log)
        return self.instrument(app, self._record_metrics.publish)
