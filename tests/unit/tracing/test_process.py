"""The spans of a process: what belongs to what, and that nothing happens while tracing is off."""

import subprocess
import sys

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
