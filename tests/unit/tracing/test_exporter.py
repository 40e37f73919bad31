"""The way to the collector: one line for an outage, the last spans, and no wait while it hangs."""

import logging
import threading
import time
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from deployments.trace_context import Trace
from deployments.tracing import process
from deployments.tracing.spans import OutageLoggingExporter, Sampler, Spans
from tests.unit.tracing.recorded import recording


def spans_of_one_trace() -> Sequence[ReadableSpan]:
    with recording() as recorded:
        with process.of_request("GET /", [], None):
            pass
        return recorded.all()


class Failing(SpanExporter):
    def __init__(self) -> None:
        self.outcome: SpanExportResult | Exception = SpanExportResult.FAILURE

    def export(self, spans):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_an_outage_of_the_collector_is_one_line_and_its_end_another(caplog):
    caplog.set_level(logging.INFO, "ray.serve")
    failing = Failing()
    exporter = OutageLoggingExporter(failing)
    spans = spans_of_one_trace()
    assert [exporter.export(spans) for _ in range(3)] == [SpanExportResult.FAILURE] * 3
    failing.outcome = OSError("no such host")
    assert exporter.export(spans) is SpanExportResult.FAILURE
    failing.outcome = SpanExportResult.SUCCESS
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    first, last = [record.getMessage() for record in caplog.records]
    assert first == "The trace collector does not serve: 1 spans were not taken"
    assert "serves again" in last
    assert "4 calls failed" in last


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
