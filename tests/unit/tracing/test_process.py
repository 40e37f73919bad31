"""The spans of a process: what belongs to what, and that nothing happens while tracing is off."""

import asyncio
import subprocess
import sys
import time

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from deployments.trace_context import CURRENT, HEADER, NOT_TRACED, Trace
from deployments.tracing import process
from tests.unit.tracing.recorded import links_of, parent_of, recording, trace_of

ONE, OTHER = Trace(1, 2), Trace(3, 4)


def test_off_there_is_nothing_to_cover_and_nothing_to_tell():
    assert process.sample(str(ONE)) is None
    with process.covering("work", [ONE]):
        assert process.current() == []
        assert process.headers() == {}


def test_off_the_sdk_is_not_loaded():
    code = (
        "import sys, deployments.tracing.process, deployments.trace_context;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_shared_work_is_a_part_of_the_first_trace_and_linked_from_the_others():
    with recording() as recorded:
        with process.covering("work", [ONE, OTHER], "client", {"steps": 2}):
            (here,) = process.current()
            assert process.headers() == {HEADER: str(here)}
        span = recorded.one("work")
    assert (trace_of(span), parent_of(span), links_of(span)) == (here, ONE, [OTHER])
    assert (span.kind, dict(span.attributes or {})) == (SpanKind.CLIENT, {"steps": 2})


def test_work_for_no_trace_has_no_span_and_the_next_process_is_told_so():
    with recording() as recorded:
        with process.covering("work", []):
            assert process.headers() == {HEADER: NOT_TRACED}
        assert recorded.all() == []


def test_work_that_fails_says_what_by_and_lets_the_error_through():
    with recording() as recorded:
        with pytest.raises(ValueError, match="secret"), process.covering("work", [ONE]):
            raise ValueError("a secret")
        span = recorded.one("work")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert not span.events, "an error's text may hold what a client has sent"
    assert CURRENT.get() is None


def test_a_request_that_nobody_traces_begins_a_trace():
    with recording() as recorded:
        senders = process.sample(None)
        assert senders == []
        with process.of_request("GET /", senders, None):
            pass
        span = recorded.one("GET /")
    assert (span.kind, span.parent) == (SpanKind.SERVER, None)


def test_the_way_from_the_edge_is_a_part_of_the_trace():
    arrived = time.time() - 0.25
    with recording() as recorded:
        senders = process.sample(str(ONE))
        assert senders == [ONE]
        with process.of_request("GET /", senders, arrived):
            pass
        edge, request = recorded.one("edge"), recorded.one("GET /")
    assert (parent_of(edge), parent_of(request)) == (ONE, trace_of(edge))
    assert edge.start_time is not None
    assert request.start_time is not None
    assert 0.2 < (request.start_time - edge.start_time) / 1e9 < 10


@pytest.mark.parametrize("arrived_s", [0.0, 1e11, 1e15])
def test_a_clock_that_is_wrong_is_not_believed(arrived_s):
    with recording() as recorded:
        senders = process.sample(str(ONE))
        assert senders == [ONE]
        with process.of_request("GET /", senders, arrived_s):
            pass
        (span,) = recorded.all()
    assert span.name == "GET /"


async def test_tasks_of_a_request_are_parts_of_its_trace():
    async def work():
        return process.current()

    with recording():
        with process.covering("request", [ONE]):
            here = process.current()
            inside = await asyncio.create_task(work())
        assert inside == here
        assert await asyncio.create_task(work()) == []
