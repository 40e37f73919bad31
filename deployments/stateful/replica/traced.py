"""Batches of requests as parts of the traces of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from deployments.stateful.replica.queues import Request
from deployments.stateful.replica.shards import ShardedLeases
from deployments.trace_context import Trace, traces_of
from deployments.tracing import process as tracing


def traces_of_requests(requests: Sequence[Request]) -> list[Trace]:
    return traces_of(request.trace for request in requests) if tracing.is_on() else []


def covering_step(batch: Sequence[Request], leases: ShardedLeases) -> AbstractContextManager[Any]:
    """Cover the step of a batch, and have its commits belong to the traces as well."""
    traces = traces_of_requests(batch)
    return _covering(batch, traces, leases) if traces else tracing.NOTHING


@contextmanager
def _covering(
    batch: Sequence[Request], traces: list[Trace], leases: ShardedLeases
) -> Iterator[None]:
    with tracing.covering("GRU step", traces, attributes={"rows": len(batch)}):
        yield
        for request in batch:
            if request.trace is not None:
                leases.trace_commit(request.key, tracing.current())
