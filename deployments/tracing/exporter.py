"""The way to the collector, about which no request ever hears."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from deployments.log import Outages

TIMEOUT_S = 5.0


def to_collector(endpoint: str) -> SpanExporter:
    """Return what sends spans by OTLP over HTTP.

    Args:
        endpoint: base URL; headers and certificates come from the environment, by the names of
            OpenTelemetry's specification.
    """
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a line for every attempt
    return TellingOutages(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=TIMEOUT_S))


class TellingOutages(SpanExporter):
    """Writes one line when spans are not taken any more, and one when they are again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._outages = Outages("The trace collector")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # a collector that answers with rubbish, or a name without host
            self._outages.failed(error)
            return result
        if result is SpanExportResult.SUCCESS:
            self._outages.served()
        else:
            self._outages.failed(ConnectionError(f"{len(spans)} spans were not taken"))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()
