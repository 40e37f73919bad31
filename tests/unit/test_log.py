"""Lines that tell, and that do not flood: tested in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from pathlib import Path

import pytest

from deployments.log import Outages, Seldom, about, logger, write_to
from tests.unit.inference.virtual_time import virtual_time


@pytest.fixture(autouse=True)
def _every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ray.serve")


def test_a_line_names_what_is_known() -> None:
    assert about(run="morning", junction=None, request="r1") == " [run=morning request=r1]"
    assert about(run=None) == ""


def test_the_first_of_a_kind_is_written_at_once_and_the_others_are_counted(caplog) -> None:
    @virtual_time
    async def act() -> None:
        seldom = Seldom("Answers", period_s=10)
        for n in range(1000):
            seldom.warning("fallback", "without the policy: %d", n, run="r", key=None)
        seldom.warning("refusal", "refused")
        assert caplog.messages == ["without the policy: 0 [run=r]", "refused"]
        await asyncio.sleep(11)
        assert caplog.messages[2:] == ["Answers, fallback: 999 more within 10 s"]
        seldom.warning("fallback", "again")
        await asyncio.sleep(11)
        assert caplog.messages[3:] == ["again"]

    act()


def test_a_summary_belongs_to_no_request(caplog) -> None:
    request = contextvars.ContextVar("request", default="none")
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(request.get())

    @virtual_time
    async def act() -> None:
        request.set("r1")
        seldom = Seldom("Answers", period_s=1)
        seldom.warning("kind", "one")
        seldom.warning("kind", "two")
        await asyncio.sleep(2)

    handler = Handler()
    logger.addHandler(handler)
    try:
        act()
    finally:
        logger.removeHandler(handler)
    assert seen == ["r1", "none"]


def test_a_process_of_its_own_has_a_file_of_its_own(tmp_path: Path) -> None:
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
    def test_each_has_a_line_at_its_begin_and_one_at_its_end(self, caplog) -> None:
        now = 0.0
        outages = Outages("redis", period_s=10, clock=lambda: now)
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

    def test_one_that_comes_and_goes_has_few_lines(self, caplog) -> None:
        now = 0.0
        outages = Outages("redis", period_s=10, clock=lambda: now)
        for _ in range(100):
            outages.failed(OSError("x"))
            outages.served()
            now += 0.01
        assert len(caplog.messages) == 2
        now = 20.0
        outages.failed(OSError("y"))
        assert caplog.messages[2:] == ["redis does not serve (as 99 times more before): y"]
