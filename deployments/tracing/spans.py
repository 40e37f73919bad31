"""The spans of this process: begun and ended anywhere, sent by a separate thread."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from deployments.log import Outages
from deployments.trace_context import CURRENT, NOT_TRACED, Trace, sender_of

MAX_PER_S = 100
"""Traces that a process records: clients must not be able to cause unlimited work."""


class Sampler:
    """Follows the sender's sampling decision, or makes it for requests without one.

    Args:
        share: of requests without a decision, from 0 to 1.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, share: float, clock: Callable[[], float], source: random.Random | None = None
    ) -> None:
        self._share = share
        self._clock = clock
        self._random = (source or random.Random()).random
        self._left = float(MAX_PER_S)
        self._filled_at = clock()

    def decide(self, traceparent: str | None) -> list[Trace] | None:
        """Return the sender's span of a traced request, if any; None when it is not traced."""
        if traceparent == NOT_TRACED:  # as the gateway sends for nearly all
            return None
        sender = sender_of(traceparent) if traceparent else None
        records = sender.records if sender else self._random() < self._share
        if not (records and self._take_place()):
            return None
        return [sender.trace] if sender else []

    def _take_place(self) -> bool:
        now = self._clock()
        self._left = min(MAX_PER_S, self._left + (now - self._filled_at) * MAX_PER_S)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


TIMEOUT_S = 5.0


def to_collector(endpoint: str) -> SpanExporter:
    """Return an exporter over OTLP/HTTP.

    Args:
        endpoint: base URL. OpenTelemetry's variables set headers and certificates.
    """
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it logs every attempt
    return OutageLoggingExporter(
        OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=TIMEOUT_S)
    )


class OutageLoggingExporter(SpanExporter):
    """Logs the beginning and the end of an outage of the collector."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._outages = Outages("The trace collector")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # such as an invalid response, or an unknown host
            self._outages.failed(error)
            return SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self._outages.served()
        else:
            self._outages.failed(ConnectionError(f"{len(spans)} spans were not taken"))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


QUEUED_SPANS = 2048
PERIOD_MS = 5000  # an export costs as much as the spans of several traces
EXPORT_TIMEOUT_MS = 5000
OLDEST_ARRIVAL_S = 60.0

_KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}


class Spans:
    """Makes spans, and exports them in a background thread; excess spans are dropped.

    Args:
        resource: identifies this process.
    """

    def __init__(
        self, exporter: SpanExporter, sampler: Sampler, resource: Mapping[str, str]
    ) -> None:
        self.sampler = sampler
        self._provider = TracerProvider(ALWAYS_ON, Resource(resource), shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                exporter,
                max_queue_size=QUEUED_SPANS,
                schedule_delay_millis=PERIOD_MS,
                export_timeout_millis=EXPORT_TIMEOUT_MS,
            )
        )
        self._tracer = self._provider.get_tracer("greenwave")

    def flush(self) -> None:
        self._provider.force_flush(EXPORT_TIMEOUT_MS)

    def close(self) -> None:
        self._provider.shutdown()

    @contextmanager
    def request(
        self, name: str, senders: Sequence[Trace], arrived_s: float | None
    ) -> Iterator[Span]:
        """Cover a request.

        Args:
            senders: the sender's span, if any.
            arrived_s: when it reached the edge, in seconds since the epoch, if that is known; the
                time since then gets a separate span.
        """
        if arrived_s is None or not 0 <= time.time() - arrived_s < OLDEST_ARRIVAL_S:
            with self.cover(name, senders, "server") as span:
                yield span
            return
        began_ns = int(arrived_s * 1e9)
        with (
            self.cover("edge", senders, "server", began_ns=began_ns) as edge,
            self.cover(name, [_trace_of(edge)], "server") as span,
        ):
            yield span

    @contextmanager
    def cover(
        self,
        name: str,
        traces: Sequence[Trace],
        kind: str,
        attributes: Mapping[str, str | int] | None = None,
        began_ns: int | None = None,
    ) -> Iterator[Span]:
        """Cover work for traces with a span of the first, linked to the others.

        Args:
            traces: if empty, a new trace begins.
            kind: server, client or internal.
        """
        parent = set_span_in_context(NonRecordingSpan(_context_of(traces[0]))) if traces else None
        span = self._tracer.start_span(
            name,
            context=parent,
            kind=_KINDS[kind],
            attributes=attributes,
            links=[Link(_context_of(other)) for other in traces[1:]],
            start_time=began_ns,
            record_exception=False,
            set_status_on_exception=False,
        )
        token = CURRENT.set(_trace_of(span))
        try:
            yield span
        except BaseException as error:
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            CURRENT.reset(token)
            span.end()


def _trace_of(span: Span) -> Trace:
    context = span.get_span_context()
    return Trace(context.trace_id, context.span_id)


def _context_of(trace: Trace) -> SpanContext:
    return SpanContext(*trace, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
