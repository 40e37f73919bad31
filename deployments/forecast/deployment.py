"""The deployment of both forecasts: wires a variant's service into a Serve replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve import Application, Deployment

from deployments.feed.actor import start_publisher
from deployments.forecast.api import create_app
from deployments.forecast.options import ForecastOptions, ForecastUserConfig
from deployments.forecast.telemetry import ForecastMetrics, ForecastReporter
from deployments.forecast.variant import Variant
from deployments.http.access_log import AccessLog
from deployments.http.fast_path import fast_path_protocol
from deployments.http.probes import Check, Probes
from deployments.metrics.exported import RequestMetrics
from deployments.metrics.publisher import Publisher
from deployments.model_slot import ConfiguredModel
from deployments.ray_private.http_server import install_protocol
from deployments.ray_private.serve import keep_calls_inside, prepare_log
from deployments.tracing.process import TracingOptions
from deployments.tracing.replica import end_traces, trace_replica


@serve.deployment(name="Forecast")
@serve.ingress()
class ForecastReplica:
    """One replica: serves a variant's model over HTTP.

    Args:
        model_path: the model's file, unless ``user_config`` names another.
        access_log_share: of the requests that get a line in the log, from 0 to 1.
    """

    async def __init__(  # type: ignore[misc]
        self,
        variant: Variant,
        options: ForecastOptions,
        model_path: str,
        access_log_share: float = 0.0,
        tracing: TracingOptions | None = None,
    ) -> None:
        prepare_log()
        keep_calls_inside()
        trace_replica(tracing)
        self._variant = variant
        self._options = options
        self._access_log = AccessLog(access_log_share)
        self._service = variant.service()
        self._model = ConfiguredModel(self._service.slot, model_path, ForecastUserConfig)
        await self._model.start()
        self._metrics = Publisher(ForecastMetrics(self._service.counts, variant).publish)
        self._feed = start_publisher(ForecastReporter(self._service.counts, self._service.watched))

    def __serve_build_asgi_app__(self) -> FastAPI:
        model = Check(lambda: self._service.slot.model is not None, "No model is loaded.")
        probes = Probes(self.check_health, {"model": model})
        app = create_app(self._variant, self._service, self._options, probes, self._access_log)
        self._metrics.add(RequestMetrics(app.state.request_times).publish)
        install_protocol(fast_path_protocol(app))
        return app

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the model; a file that cannot be served leaves the present one in place."""
        await self._model.reconfigure(user_config)

    def check_health(self) -> None:
        self._metrics.check_health()
        self._feed.check_health()

    async def __del__(self) -> None:
        self._metrics.stop()
        self._feed.stop()
        await end_traces()


def bind(
    variant: Variant,
    options: ForecastOptions,
    default_path: Path,
    access_log_share: float,
    tracing: TracingOptions | None = None,
) -> Application:
    """Make the application of a variant.

    Args:
        default_path: the model's file, unless the options name another.
    """
    deployment: Deployment = ForecastReplica
    path = str(options.model_path or default_path)
    return deployment.options(name=variant.deployment).bind(
        variant, options, path, access_log_share, tracing
    )
