"""Spans of this process. While tracing is off, all functions do nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from deployments.trace_context import CURRENT, HEADER, NOT_TRACED, Trace

if TYPE_CHECKING:
    from deployments.tracing.spans import Spans


class TracingOptions(NamedTuple):
    """Settings of tracing.

    Attributes:
        endpoint: base URL of an OTLP receiver over HTTP.
        share: of the requests without a trace of their sender, from 0 to 1.
    """

    endpoint: str
    share: float


NOTHING: AbstractContextManager[None] = nullcontext()
_spans: Spans | None = None


def start(options: TracingOptions | None, service: str, instance: str) -> None:
    """Turn tracing on, unless the options are None or it is on already.

    Args:
        service, instance: identify this process.
    """
    if options is None or _spans is not None:
        return
    # imported here: OpenTelemetry takes 13 MB and a tenth of a second
    from deployments.tracing.spans import Sampler, Spans, to_collector

    named = {
        "service.namespace": "greenwave",
        "service.name": service,
        "service.instance.id": instance,
    }
    sampler = Sampler(options.share, time.monotonic)
    install(Spans(to_collector(options.endpoint), sampler, named))


def install(spans: Spans | None) -> None:
    global _spans
    _spans = spans


def stop() -> None:
    """Turn tracing off, and send the remaining spans."""
    spans = _spans
    install(None)
    if spans is not None:
        spans.close()


async def shut_down(patience_s: float = 3.0) -> None:
    """Turn tracing off, and wait for the last spans to be sent, but no longer than a while."""
    if not is_on():
        return
    # a daemon thread: waiting for a collector must not keep the process from ending
    sending = threading.Thread(target=stop, daemon=True)
    sending.start()
    await asyncio.to_thread(sending.join, patience_s)


def is_on() -> bool:
    return _spans is not None


def sample(traceparent: str | None) -> list[Trace] | None:
    """Return the sender's span of a traced request, if any; None when it is not traced.

    Args:
        traceparent: header of the request.
    """
    return None if _spans is None else _spans.sampler.decide(traceparent)


def of_request(
    name: str, senders: Sequence[Trace], arrived_s: float | None
) -> AbstractContextManager[Any]:
    """Cover a traced request with a span.

    Args:
        senders: the result of :func:`sample`.
        arrived_s: when it reached the edge, in seconds since the epoch, if that is known.
    """
    return NOTHING if _spans is None else _spans.request(name, senders, arrived_s)


def covering(
    name: str,
    traces: Sequence[Trace],
    kind: str = "internal",
    attributes: Mapping[str, str | int] | None = None,
) -> AbstractContextManager[Any]:
    """Cover work for traces, if there are any, with a span of the first, linked to the others."""
    if _spans is None or not traces:
        return NOTHING
    return _spans.cover(name, traces, kind, attributes)


def current() -> list[Trace]:
    """Return the current trace, if there is one."""
    trace = CURRENT.get()
    return [] if trace is None else [trace]


def headers() -> dict[str, str]:
    """Return the headers that pass the current trace, or its absence, to another process."""
    if _spans is None:
        return {}
    trace = CURRENT.get()
    return {HEADER: NOT_TRACED if trace is None else str(trace)}
