"""The deployment of a record service: wires it into a Serve replica."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from ray import serve
from ray.serve.metrics import Counter, Histogram

from deployments.customers.records.api import create_app
from deployments.customers.records.errors import InvalidMobileNumber
from deployments.customers.records.record_type import RecordType
from deployments.customers.records.service import RecordService
from deployments.store import Store

LATENCY_BUCKETS_MS = [0.25, 0.5, 1, 2, 5, 10, 25, 50, 100, 250, 1000, 5000]


@serve.deployment(name="CustomerRecords")
@serve.ingress()
class CustomerRecords:
    """One replica of one record service; all that it knows is in the store."""

    def __init__(self, record_type: RecordType, open_store: Callable[[], Store]) -> None:
        operations = Counter(
            "customer_record_operations",
            description="Operations on customer records, by service and outcome.",
            tag_keys=("service", "operation", "outcome"),
        )
        latency = Histogram(
            "customer_record_store_latency_ms",
            description="Time of an operation that reached the store, almost all of it in there.",
            boundaries=LATENCY_BUCKETS_MS,
            tag_keys=("service", "operation"),
        )

        def observe(operation: str, outcome: str, latency_ms: float) -> None:
            tags = {"service": record_type.name, "operation": operation}
            operations.inc(tags={**tags, "outcome": outcome})
            if outcome != InvalidMobileNumber.outcome:
                latency.observe(latency_ms, tags=tags)

        self._service = RecordService(record_type, open_store(), observe)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service)
