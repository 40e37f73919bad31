"""What the settings give to replicas: the store, access logs and traces."""

from __future__ import annotations

import ray

from deployments.replica import Observability
from deployments.store import Store, open_store
from deployments.tracing.process import TracingOptions
from serve_app.settings import Settings


def open_configured_store() -> Store:
    """Open the store in the process that uses it.

    Its URL may have a password, and Ray stores what is bound to a deployment.
    """
    return open_store(Settings().resolved_store_url)


def require_shared_store() -> None:
    """Refuse an embedded store on a cluster of several machines.

    Raises:
        ValueError: each machine would have separate records.
    """
    if Settings().embedded_store is None or not ray.is_initialized():
        return
    machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    if len(machines) > 1:
        raise ValueError(
            f"STORE_URL is an embedded store, but the cluster has {len(machines)} machines, and "
            "each would have separate records. Set STORE_URL=redis://… on every node."
        )


def configured_observability(settings: Settings) -> Observability:
    """Return what replicas record of their requests."""
    endpoint, share = settings.otel_exporter_otlp_endpoint, settings.otel_traces_sampler_arg
    tracing = None if endpoint is None else TracingOptions(endpoint, share)
    return Observability(settings.access_log_share, tracing)
