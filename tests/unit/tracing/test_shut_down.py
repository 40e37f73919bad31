"""The end of a replica: its last spans are sent, and a collector that hangs is not waited for."""

import threading
import time
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from deployments.trace_context import Trace
from deployments.tracing import process
from deployments.tracing.spans import Sampler, Spans


class Collector(SpanExporter):
    """Takes spans, once the test lets it."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.taken: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.answers.wait()
        self.taken += [span.name for span in spans]
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.answers.set()


def trace_to(collector: Collector) -> None:
    process.install(Spans(collector, Sampler(1.0, time.monotonic), {}))
    with process.covering("the last", [Trace(1, 2)]):
        pass


async def test_the_last_spans_are_sent_at_the_end():
    collector = Collector()
    collector.answers.set()
    trace_to(collector)
    await process.shut_down()
    assert collector.taken == ["the last"]
    assert not process.is_on()


async def test_a_collector_that_hangs_is_not_waited_for():
    collector = Collector()
    trace_to(collector)
    await process.shut_down(patience_s=0.05)
    assert collector.taken == []
    assert not process.is_on()
    collector.answers.set()
