"""The tracing of the settings."""

from __future__ import annotations

from deployments.tracing.process import TracingOptions
from serve_app.settings import Settings


def configured_tracing() -> TracingOptions | None:
    """Return where traces go and how many, or None while tracing is off."""
    settings = Settings()
    if settings.otel_exporter_otlp_endpoint is None:
        return None
    return TracingOptions(settings.otel_exporter_otlp_endpoint, settings.otel_traces_sampler_arg)
