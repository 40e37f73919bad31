"""One trace from the gateway to the policy's step, across every process on its way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deployments.trace_context import HEADER
from load_tests.harness.system import System, application
from tests.cluster.gateway.conftest import USER, gateway, wait_for
from tests.reference import JUNCTIONS
from tests.support.trace_collector import Collector, Received, collecting

WAY = [
    ("gateway-traced", "POST /traced/api/traffic/action"),
    ("gateway-traced", "POST /predict_action"),
    ("inference-traced", "POST /traced/predict_action"),
    ("inference-traced", "GRU step"),
]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def url(gateways: System, collector: Collector) -> Iterator[str]:
    on = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_TRACES_SAMPLER_ARG": "0"}
    gateways.deploy(
        gateway("gateway-traced", "/traced/api", env=on, inference_app="inference-traced"),
        application("inference-traced", "/traced", env=on),
    )
    yield f"{gateways.url}/traced/api"
    gateways.remove("gateway-traced", "inference-traced")


@pytest.fixture
def authorized(url: str) -> dict[str, str]:
    answer = httpx.post(f"{url}/auth/login", json=USER, timeout=10).raise_for_status()
    return {"Authorization": f"Bearer {answer.json()['accessToken']}"}


@pytest.fixture
def client(url: str, authorized: dict[str, str]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers=authorized, timeout=10) as client:
        yield client


def traceparent() -> tuple[str, str, str]:
    """Make up a trace: its id, the id of a span in it, and the header."""
    trace_id, span_id = os.urandom(16).hex(), os.urandom(8).hex()
    return trace_id, span_id, f"00-{trace_id}-{span_id}-01"


def body_of(n: int) -> dict[str, Any]:
    junction = JUNCTIONS[n % len(JUNCTIONS)]
    of_the_gateway = {"junctionId": junction, "observations": [0.5]}
    return {**of_the_gateway, "junction_id": junction, "obs_data": [0.5]}


def act(client: httpx.Client, n: int, traceparent: str | None = None) -> None:
    headers = {HEADER: traceparent} if traceparent else {}
    client.post("/traffic/action", json=body_of(n), headers=headers).raise_for_status()


def test_one_trace_leads_from_the_gateway_to_the_step(
    client: httpx.Client, collector: Collector
) -> None:
    trace_id, span_id, header = traceparent()
    act(client, 0, header)

    def way() -> list[Received]:
        """Follow the names of the way from the client's span on."""
        parent, found = span_id, []
        for service, name in WAY:
            here = [
                span
                for span in collector.of_trace(trace_id)
                if (span.service, span.name, span.parent_id) == (service, name, parent)
            ]
            if not here:
                break
            found += here[:1]
            parent = here[0].span_id
        return found

    wait_for(lambda: len(way()) == len(WAY))
    assert all(span.began <= span.ended for span in way())


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/traced/api/traffic/action", "POST /predict_actions"),
        ("/traced/predict_action", "GRU step"),
    ],
)
async def test_what_requests_share_is_linked_to_the_trace_of_each(
    gateways: System, authorized: dict[str, str], collector: Collector, path: str, shared: str
) -> None:
    begun: set[str] = set()

    async def burst(client: httpx.AsyncClient) -> None:
        traces = [traceparent() for _ in range(40)]
        begun.update(trace_id for trace_id, _, _ in traces)
        posts = [
            client.post(path, json=body_of(n), headers={HEADER: header})
            for n, (_, _, header) in enumerate(traces)
        ]
        assert {answer.status_code for answer in await asyncio.gather(*posts)} == {200}

    def is_linked() -> bool:
        spans = [span for span in list(collector.spans) if span.name == shared]
        return any(span.links and {each for each, _ in span.links} <= begun for span in spans)

    # Which of them meet is chance.
    async with (
        asyncio.timeout(60),
        httpx.AsyncClient(base_url=gateways.url, headers=authorized, timeout=10) as client,
    ):
        while not is_linked():
            await burst(client)
            await asyncio.sleep(0.5)


def test_what_comes_without_a_trace_is_not_traced_at_a_share_of_zero(
    client: httpx.Client, collector: Collector
) -> None:
    for _ in range(20):
        act(client, 1)
    trace_id, _, header = traceparent()
    act(client, 1, header)
    wait_for(lambda: any(span.name == "GRU step" for span in collector.of_trace(trace_id)))
    assert not [span for span in list(collector.spans) if not span.parent_id], "began here"
