"""Spans that stay in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from deployments.trace_context import Trace
from deployments.tracing import process
from deployments.tracing.spans import Sampler, Spans


class Recorded:
    """What a process has recorded."""

    def __init__(self, share: float) -> None:
        self._exporter = InMemorySpanExporter()
        self.spans = Spans(self._exporter, Sampler(share, lambda: 0.0), {"service.name": "test"})

    def all(self) -> list[ReadableSpan]:
        """Return the spans that have ended, in that order."""
        self.spans.flush()
        return list(self._exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        (span,) = [each for each in self.all() if each.name == name]
        return span


@contextmanager
def recording(share: float = 1.0) -> Iterator[Recorded]:
    """Have this process trace a share of its requests."""
    recorded = Recorded(share)
    process.install(recorded.spans)
    try:
        yield recorded
    finally:
        process.stop()


def trace_of(span: ReadableSpan) -> Trace:
    return Trace(span.context.trace_id, span.context.span_id)


def parent_of(span: ReadableSpan) -> Trace | None:
    return span.parent and Trace(span.parent.trace_id, span.parent.span_id)


def links_of(span: ReadableSpan) -> list[Trace]:
    return [Trace(link.context.trace_id, link.context.span_id) for link in span.links]
