"""A collector of traces by OTLP over HTTP, which keeps the spans in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Received(NamedTuple):
    """One span. Ids are in hexadecimal; times in seconds since 1970.

    Attributes:
        links: (trace id, span id) of each.
    """

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    links: list[tuple[str, str]]
    began: float
    ended: float


class Collector:
    """A running collector.

    Attributes:
        url: its base URL.
        spans: in the order of their arrival.
    """

    def __init__(self) -> None:
        self.spans: list[Received] = []
        collector = self

        class Receiver(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.spans += _spans_in(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def of_trace(self, trace_id: str) -> list[Received]:
        return [span for span in list(self.spans) if span.trace_id == trace_id]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    try:
        yield collector
    finally:
        collector.close()


def _spans_in(request: ExportTraceServiceRequest) -> Iterator[Received]:
    for resource in request.resource_spans:
        attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Received(
                    attributes["service.name"],
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    span.start_time_unix_nano / 1e9,
                    span.end_time_unix_nano / 1e9,
                )
