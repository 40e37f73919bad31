"""What traces cost by themselves, in this process: what other work on a machine does not change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from deployments.http.fast_routes import covering
from deployments.trace_context import NOT_TRACED, Trace
from deployments.tracing import process
from deployments.tracing.spans import Sampler, Spans

N, TRIALS = 5000, 5
HEADERS = [(b"x-header-%d" % number, b"a value") for number in range(8)]


def print_costs(say: Callable[[str], object]) -> None:
    """Say what a request that is not traced costs in both services, and what a span costs."""
    process.install(Spans(_Encoding(), Sampler(0.0, time.monotonic), {}))
    try:
        requests = _least_us(_pass_on_untraced)
        spans = _least_us(_make_span)
    finally:
        process.stop()
    say(f"not traced: {requests:.1f} µs a decision in both services; a span: {spans:.0f} µs")


def _pass_on_untraced() -> None:
    """Do what the gateway and the inference service do for a request that is not sampled."""
    for headers in (HEADERS, [*HEADERS, (b"traceparent", NOT_TRACED.encode())]):
        covering({"type": "http", "method": "POST", "path": "/", "headers": headers})
    process.headers()
    process.current()


def _make_span() -> None:
    with process.covering("work", [Trace(1 << 100, 1 << 60)]):
        pass


def _least_us(work: Callable[[], None]) -> float:
    """Return the CPU time of this process, with that of the thread that exports."""
    trials = []
    for _ in range(TRIALS):
        began = time.process_time()
        for _ in range(N):
            work()
        trials.append((time.process_time() - began) / N * 1e6)
    return min(trials)


class _Encoding(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS
