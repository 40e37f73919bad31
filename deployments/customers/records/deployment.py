"""The deployment of a record service: wires it into a Serve replica."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from ray import serve

from deployments.customers.records.api import create_app
from deployments.customers.records.metrics import RecordMetrics
from deployments.customers.records.record_type import RecordType
from deployments.customers.records.service import RecordService
from deployments.http.access_log import AccessLog
from deployments.http.fast_path import fast_path_protocol
from deployments.http.probes import Probes, store_check
from deployments.metrics.publisher import Publisher
from deployments.metrics.requests import RequestMetrics
from deployments.ray_private.calls_server import keep_calls_inside
from deployments.ray_private.http_server import install_protocol
from deployments.ray_private.serve import prepare_log
from deployments.store import Store
from deployments.tracing.options import TracingOptions
from deployments.tracing.replica import end_traces, trace_replica


@serve.deployment(name="CustomerRecords")
@serve.ingress()
class CustomerRecords:
    """One replica of one record service; all that it knows is in the store.

    Args:
        access_log_share: of the requests that get a line in the log, from 0 to 1.
    """

    async def __init__(  # type: ignore[misc]
        self,
        record_type: RecordType,
        open_store: Callable[[], Store],
        access_log_share: float = 0.0,
        tracing: TracingOptions | None = None,
    ) -> None:
        prepare_log()
        keep_calls_inside()
        trace_replica(tracing)
        metrics = RecordMetrics(record_type.name)
        store = open_store()
        self._service = RecordService(record_type, store, metrics.observe)
        self._probes = Probes(self.check_health, {"store": store_check(store)})
        self._access_log = AccessLog(access_log_share)
        self._metrics = Publisher(metrics.publish)

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = create_app(self._service, self._probes, self._access_log)
        self._metrics.add(RequestMetrics(app.state.request_times).publish)
        install_protocol(fast_path_protocol(app))
        return app

    def check_health(self) -> None:
        self._metrics.check_health()

    async def __del__(self) -> None:
        self._metrics.stop()
        await end_traces()
