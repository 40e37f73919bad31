"""The way to the collector: one line for an outage, and nothing that reaches a request."""

import logging
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from deployments.tracing import process
from deployments.tracing.spans import OutageLoggingExporter
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
