"""The way to the collector: one line for an outage, and nothing that reaches a request."""

import logging
import socket
import time
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from deployments.trace_context import Trace
from deployments.tracing import process
from deployments.tracing.process import TracingOptions
from deployments.tracing.spans import QUEUED_SPANS, TIMEOUT_S, OutageLoggingExporter
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


@pytest.fixture
def silent():
    """Take connections, and answer none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_collector_that_hangs_holds_up_no_request(silent):
    process.start(TracingOptions(silent, 1.0), "test", "1")
    took_s = []
    try:
        for _ in range(3 * QUEUED_SPANS):
            started = time.perf_counter()
            with process.covering("work", [Trace(1, 2)]):
                pass
            took_s.append(time.perf_counter() - started)
    finally:
        process.install(None)  # a close would wait for the last spans
    # Behind a full queue, each would wait for the collector. A busy machine may delay some.
    assert sum(each > TIMEOUT_S / 2 for each in took_s) < QUEUED_SPANS / 10
