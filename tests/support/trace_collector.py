"""A collector of traces by OTLP over HTTP, which keeps the spans in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.local_server import Answer, Request, serving


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


@dataclass
class Collector:
    """A running collector.

    Attributes:
        url: its base URL.
        spans: in the order of their arrival.
    """

    url: str = ""
    spans: list[Received] = field(default_factory=list)

    def of_trace(self, trace_id: str) -> list[Received]:
        return [span for span in list(self.spans) if span.trace_id == trace_id]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    def receive(request: Request) -> Answer:
        collector.spans += _spans_in(ExportTraceServiceRequest.FromString(request.body))
        answer = ExportTraceServiceResponse().SerializeToString()
        return Answer(200, answer, {"content-type": "application/x-protobuf"})

    with serving(receive) as collector.url:
        yield collector


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
