"""The base of the deployment classes: what every replica has beside its service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from fastapi import FastAPI
from ray import serve

from deployments.aio import PeriodicTask
from deployments.feed.actor import start_publisher
from deployments.feed.publisher import Reporter
from deployments.http.access_log import AccessLog
from deployments.http.fast_path import fast_path_protocol
from deployments.http.probes import Check, Probes
from deployments.metrics.exported import RequestMetrics
from deployments.ray_private.http_server import install_protocol
from deployments.ray_private.serve import keep_calls_inside, prepare_log
from deployments.tracing import process as tracing


class Observability(NamedTuple):
    """What a replica records of its requests.

    Attributes:
        access_log_share: of the requests that get a line in the log, from 0 to 1.
        tracing: None while traces are off.
    """

    access_log_share: float = 0.0
    tracing: tracing.TracingOptions | None = None


class ReplicaBase:
    """Log, traces, probes, metrics and background tasks of a replica.

    A subclass is constructor wiring and one-line delegations. Its ``async __init__`` calls this
    one before anything else, and its ``__serve_build_asgi_app__`` passes its application through
    :meth:`instrument`.

    Attributes:
        access_log: for the application.
        checks: what the replica needs to be ready, by name; the constructor fills it.
        probes: for the application.
    """

    def __init__(self, observability: Observability | None = None) -> None:
        share, traces = observability or Observability()
        prepare_log()
        keep_calls_inside()
        replica = serve.get_replica_context()
        tracing.start(traces, replica.app_name, replica.replica_id.unique_id)
        self.access_log = AccessLog(share)
        self.checks: dict[str, Check] = {}
        self.probes = Probes(self.check_health, self.checks)
        self._tasks: list[PeriodicTask] = []
        self._close: list[Callable[[], Awaitable[None]]] = []

    def stop_at_end(self, *tasks: PeriodicTask) -> None:
        """Stop these when the replica ends, before what it closes."""
        self._tasks += tasks

    def close_at_end(self, *close: Callable[[], Awaitable[None]]) -> None:
        """Call these when the replica ends, in their order, after the background tasks."""
        self._close += close

    def instrument(
        self, app: FastAPI, publish: Callable[[], None], reporter: Reporter | None = None
    ) -> FastAPI:
        """Publish metrics of an application, and have its fast routes pass Serve's wrapper by.

        Args:
            publish: publishes the service's own metrics.
            reporter: reports to an open console.
        """
        requests = RequestMetrics(app.state.request_times)

        def publish_all() -> None:
            publish()
            requests.publish()

        self.stop_at_end(PeriodicTask("The metrics", publish_all))
        if reporter is not None:
            self.stop_at_end(start_publisher(reporter))
        install_protocol(fast_path_protocol(app))
        return app

    def check_health(self) -> None:
        """Raise an error, shown in ``/livez``, when Serve is to replace the replica."""

    async def __del__(self) -> None:
        for task in self._tasks:
            task.stop()
        for close in self._close:
            await close()
        await tracing.shut_down()
