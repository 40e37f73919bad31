"""Access logs and traces, as configured."""

from __future__ import annotations

from deployments.replica import Observability
from deployments.tracing.process import TracingOptions
from serve_app.settings import Settings


def configured_observability(settings: Settings) -> Observability:
    """Return what replicas record of their requests."""
    return Observability(settings.access_log_share, configured_tracing(settings))


def configured_tracing(settings: Settings) -> TracingOptions | None:
    """Return where traces go and how many; None while tracing is off."""
    if settings.otel_exporter_otlp_endpoint is None:
        return None
    return TracingOptions(settings.otel_exporter_otlp_endpoint, settings.otel_traces_sampler_arg)
