"""Tracing in a replica of Serve."""

from __future__ import annotations

import asyncio
import threading

from ray import serve

from deployments.tracing import process
from deployments.tracing.process import TracingOptions


def trace_replica(options: TracingOptions | None) -> None:
    """Turn tracing on, if it is asked for; the service is called as the application."""
    replica = serve.get_replica_context()
    process.start(options, replica.app_name, replica.replica_id.unique_id)


async def end_traces(patience_s: float = 3.0) -> None:
    """Send the spans of the last seconds, but wait for a collector no longer than that."""
    if not process.is_on():
        return
    # not a thread of the pool: one that waits for a collector keeps no process from ending
    sending = threading.Thread(target=process.stop, daemon=True)
    sending.start()
    await asyncio.to_thread(sending.join, patience_s)
