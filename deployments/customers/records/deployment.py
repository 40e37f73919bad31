"""The deployment of a record service: wires it into a Serve replica."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from ray import serve

from deployments.customers.records.api import create_app
from deployments.customers.records.metrics import RecordMetrics
from deployments.customers.records.record_type import RecordType
from deployments.customers.records.service import RecordService
from deployments.metrics.publisher import Publisher
from deployments.ray_private.serve import prepare_log
from deployments.store import Store


@serve.deployment(name="CustomerRecords")
@serve.ingress()
class CustomerRecords:
    """One replica of one record service; all that it knows is in the store."""

    async def __init__(  # type: ignore[misc]
        self, record_type: RecordType, open_store: Callable[[], Store]
    ) -> None:
        prepare_log()
        metrics = RecordMetrics(record_type.name)
        self._service = RecordService(record_type, open_store(), metrics.observe)
        self._metrics = Publisher(metrics.publish)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service)

    def check_health(self) -> None:
        self._metrics.check_health()

    def __del__(self) -> None:
        self._metrics.stop()
