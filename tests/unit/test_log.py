"""Lines that tell, and that do not flood: tested in virtual time."""

import contextvars
import io
import json
import logging
import time

import pytest

from deployments.log import (
    Outages,
    RateLimitFilter,
    about,
    line_handler,
    logger,
    request_headers,
    write_to,
)
from deployments.trace_context import CURRENT, NOT_TRACED, Trace


@pytest.fixture(autouse=True)
def _every_level(caplog):
    caplog.set_level(logging.INFO, logger="ray.serve")


def lines_of(*, is_json: bool, **fields: str) -> tuple[logging.Logger, io.StringIO]:
    """Make a logger of its own with a handler as a process that is no replica has."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    line_handler(handler, "%(levelname)s %(message)s", is_json, **fields)
    made = logging.Logger("test")
    made.addHandler(handler)
    return made, stream


class TestForms:
    def test_text_ends_with_what_is_known(self):
        made, stream = lines_of(is_json=False, application="inference")
        made.warning("refused %d", 1, extra=about(run="morning", junction=None, request="r1"))
        made.warning("refused", extra=about(run=None))
        assert stream.getvalue() == "WARNING refused 1 [run=morning request=r1]\nWARNING refused\n"

    def test_json_has_it_in_fields_beside_those_of_the_process(self):
        made, stream = lines_of(is_json=True, application="inference")
        made.warning("refused %d", 1, extra={"ms": 2.5, **about(run="morning", junction=None)})
        line = json.loads(stream.getvalue())
        assert line["message"] == "refused 1"
        assert (line["application"], line["run"], line["ms"]) == ("inference", "morning", 2.5)
        assert {"about", "junction", "args", "msg"}.isdisjoint(line)
        assert line["levelname"] == "WARNING"
        assert line["timestamp_ns"] == pytest.approx(time.time_ns(), abs=60e9)

    def test_a_traceback_is_part_of_its_one_line(self):
        made, stream = lines_of(is_json=True)
        try:
            raise KeyError("x\ny")
        except KeyError as error:
            made.error("A request failed", exc_info=error, extra={"odd": object()})
        (line,) = stream.getvalue().splitlines()
        assert "Traceback" in json.loads(line)["exc_text"]

    @pytest.mark.parametrize(
        ("header", "trace"),
        [
            (f"00-{'ab' * 16}-{'cd' * 8}-01", "ab" * 16),
            ("nonsense\n", None),
            (NOT_TRACED, None),
        ],
    )
    def test_a_line_names_the_trace_of_its_request(self, header, trace):
        made, stream = lines_of(is_json=True)
        sent = [(b"host", b"x"), (b"traceparent", header.encode())]

        def act():
            request_headers.set(sent)
            made.warning("of a request")

        contextvars.Context().run(act)
        made.warning("of none")
        first, second = map(json.loads, stream.getvalue().splitlines())
        assert first.get("trace_id") == trace
        assert "trace_id" not in second

    def test_a_line_has_the_id_of_its_request_as_a_field(self):
        made, stream = lines_of(is_json=True)

        def act():
            request_headers.set([(b"x-request-id", b"r-1")])
            made.warning("of a request")
            made.warning("of another", extra={"request_id": "r-2"})

        contextvars.Context().run(act)
        made.warning("of none")
        ids = [json.loads(line).get("request_id") for line in stream.getvalue().splitlines()]
        assert ids == ["r-1", "r-2", None]

    def test_a_line_of_a_trace_that_is_recorded_here_names_that_one(self):
        made, stream = lines_of(is_json=True)
        token = CURRENT.set(Trace(0xAB, 0xCD))
        made.warning("of a request")
        CURRENT.reset(token)
        assert json.loads(stream.getvalue())["trace_id"] == f"{0xAB:032x}"


class TestRateLimitFilter:
    def test_few_warnings_of_a_place_pass_and_the_next_tells_of_the_others(self):
        now = 0.0
        logger, stream = lines_of(is_json=False)
        (handler,) = logger.handlers
        handler.filters[0] = RateLimitFilter(most=3, period_s=10, clock=lambda: now)
        for n in range(1000):
            logger.error("failed %d", n)
            logger.info("done")
            now += 0.011
        logger.warning("another place")
        lines = stream.getvalue().splitlines()
        assert [each for each in lines if each.startswith("ERROR")] == [
            *(f"ERROR failed {n}" for n in range(3)),
            "ERROR failed 910 (and 907 times more before)",
            *(f"ERROR failed {n}" for n in (911, 912)),
        ]
        assert lines.count("INFO done") == 1000, "what is no warning is bounded where it is written"
        assert "WARNING another place" in lines


def test_a_process_of_its_own_has_a_file_of_its_own(tmp_path):
    before = logger.handlers[:], logger.propagate
    try:
        write_to(tmp_path / "states.log", "hidden_states 1/0")
        logger.info("heard %d", 2)
        logger.handlers[-1].close()
    finally:
        logger.handlers[:], logger.propagate = before
    line = (tmp_path / "states.log").read_text()
    assert line.startswith("INFO 2")
    assert line.endswith(" hidden_states 1/0 -- heard 2\n")


class TestOutages:
    def test_each_has_a_line_at_its_begin_and_one_at_its_end(self, caplog):
        now = 0.0
        outages = Outages("redis", clock=lambda: now)
        outages.served()
        for _ in range(3):
            now += 1
            outages.failed(OSError("connection refused"))
        now += 3
        outages.served()
        outages.served()
        assert caplog.messages == [
            "redis does not serve: connection refused",
            "redis serves again after 5.0 s; 3 calls failed",
        ]

    def test_an_error_without_a_text_has_its_name(self, caplog):
        Outages("redis").failed(TimeoutError())
        assert caplog.messages == ["redis does not serve: TimeoutError()"]
