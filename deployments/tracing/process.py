"""The spans of this process, as whoever does the work uses them: nothing at all while off."""

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
    """What a process needs to know to take part in traces.

    Attributes:
        endpoint: base URL of an OTLP receiver over HTTP.
        share: of the requests that come without a trace of their sender, from 0 to 1.
    """

    endpoint: str
    share: float


NOTHING: AbstractContextManager[None] = nullcontext()
_spans: Spans | None = None


def start(options: TracingOptions | None, service: str, instance: str) -> None:
    """Turn tracing on, if it is asked for; once in a process.

    Args:
        service, instance: what tells this process from others.
    """
    if options is None or _spans is not None:
        return
    # OpenTelemetry takes 13 MB and a tenth of a second, which only those pay who use it.
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
    """Turn tracing off, and send what is left."""
    spans = _spans
    install(None)
    if spans is not None:
        spans.close()


async def shut_down(patience_s: float = 3.0) -> None:
    """Turn tracing off, and wait for the last spans to be sent, but no longer than a while."""
    if not is_on():
        return
    # not a thread of the pool: one that waits for a collector keeps no process from ending
    sending = threading.Thread(target=stop, daemon=True)
    sending.start()
    await asyncio.to_thread(sending.join, patience_s)


def is_on() -> bool:
    return _spans is not None


def sample(traceparent: str | None) -> list[Trace] | None:
    """Return whose trace a request is a part of, if any; None when it is not traced.

    Args:
        traceparent: of whoever sends it.
    """
    decision = _spans.sampler.decide(traceparent) if _spans is not None else False
    if decision is False:
        return None
    return [decision] if isinstance(decision, Trace) else []


def of_request(
    name: str, senders: Sequence[Trace], arrived_s: float | None
) -> AbstractContextManager[Any]:
    """Cover the answer to a request that is traced.

    Args:
        senders: what :func:`sample` has returned.
        arrived_s: when it reached the edge, in seconds since 1970, if that is known.
    """
    return NOTHING if _spans is None else _spans.request(name, senders, arrived_s)


def covering(
    name: str,
    traces: Sequence[Trace],
    kind: str = "internal",
    attributes: Mapping[str, str | int] | None = None,
) -> AbstractContextManager[Any]:
    """Cover work for traces, if there are any: a span of the first, linked to from the others.

    Within it, that span is the current one.
    """
    if _spans is None or not traces:
        return NOTHING
    return _spans.cover(name, traces, kind, attributes)


def current() -> list[Trace]:
    """Return the trace of the work at hand, if it is traced."""
    trace = CURRENT.get()
    return [] if trace is None else [trace]


def headers() -> dict[str, str]:
    """Return the headers by which another process takes part in the trace, or keeps out of it."""
    if _spans is None:
        return {}
    trace = CURRENT.get()
    return {HEADER: NOT_TRACED if trace is None else str(trace)}
