"""Tracing in a replica of Serve."""

from __future__ import annotations

from ray import serve

from deployments.tracing import process
from deployments.tracing.process import TracingOptions

end_traces = process.shut_down


def trace_replica(options: TracingOptions | None) -> None:
    """Turn tracing on, if it is asked for; the service is called as the application."""
    replica = serve.get_replica_context()
    process.start(options, replica.app_name, replica.replica_id.unique_id)
