import math
from collections import Counter
from typing import Any

import pytest

from load_tests.chaos.clients import ANSWERED
from load_tests.chaos.parts import Result
from load_tests.chaos.requests import FALLBACK, Record, Seen, Stream, predictions, sending
from load_tests.chaos.service_experiments import judge
from load_tests.chaos.service_faults import FAULTS
from tests.support.waiting import until_async

CLOSED = "http://127.0.0.1:1"


def complaints(fault: str, **changed: Any) -> list[str]:
    values: dict[str, Any] = {"lost": 0, "missing": 0, "whole_s": 0.2, **changed}
    return list(judge(FAULTS[fault], values.pop("kinds", Counter()), **values))


def seen(*kinds: str) -> dict[str, Any]:
    return {"kinds": Counter([ANSWERED, *kinds])}


@pytest.mark.parametrize(
    ("fault", "changed"),
    [
        ("gateway", {}),
        ("edge", seen("connection refused", "connection broken")),
        ("front", seen(FALLBACK, "503")),
    ],
)
def test_what_a_fault_may_cost_is_no_reason_to_complain(
    fault: str, changed: dict[str, Any]
) -> None:
    assert complaints(fault, **changed) == []


@pytest.mark.parametrize(
    ("fault", "service", "allowed_s"),
    [
        ("gateway", "inference", 2),
        ("front", "loans", 1),
        ("store", "inference", 2),
        ("store", "loans", 7),
        ("ray", "inference", 30),
        ("only-inference", "inference", 6),
        ("code", "inference", 2),
    ],
)
def test_a_service_may_be_away_for_so_long(fault: str, service: str, allowed_s: float) -> None:
    assert FAULTS[fault].allowed_s(service) == allowed_s


def test_a_longer_time_is_reported_unless_the_machine_is_busy() -> None:
    result = Result({"loans": (2.1, 2.0), "flow": (2.0, 2.0)}, ["2 are lost"], [], {})
    assert result.complaints() == ["loans was away for 2.1 s, not 2", "2 are lost"]
    assert result.complaints(slack_s=0.2) == ["2 are lost"]


@pytest.mark.parametrize(
    ("fault", "changed", "complaint"),
    [
        ("front", seen("404 text/plain"), "clients saw 404 text/plain"),
        ("ray", seen("500"), "clients saw 500"),
        ("ray", seen("no answer in 10 s"), "clients saw no answer"),
        ("front", seen("connection broken"), "clients saw connection broken"),
        ("states", {"lost": 1}, "1 answered steps"),
        ("ray", {"missing": 2}, "2 acknowledged records are missing"),
        ("gateway", {"whole_s": math.inf}, "not become whole"),
        ("code", seen(FALLBACK, "503"), "2 requests were not answered"),
    ],
)
def test_what_is_worse_is_reported(fault: str, changed: dict[str, Any], complaint: str) -> None:
    (sentence,) = complaints(fault, **changed)
    assert complaint in sentence


def test_a_service_is_away_from_its_last_answer_to_the_next_one() -> None:
    record = Record()
    for sent, done, what in [(0, 1.0, ANSWERED), (2, 2.5, "503"), (3, 4.0, FALLBACK)]:
        record.seen.append(Seen("gateway", sent, done, what))
    record.seen.append(Seen("loans", 2, 2.0, ANSWERED))
    assert record.away_s("gateway", since=0.5, until=5.0) == 3.0
    assert record.away_s("gateway", since=2.0, until=9.0) == 5.0
    assert record.away_s("another", since=2.0, until=9.0) == 7.0


def test_an_answer_to_a_request_from_before_a_fault_is_not_the_first_after_it() -> None:
    record = Record()
    for sent, done, what in [(1, 9, ANSWERED), (3, 4, "503"), (5, 8, ANSWERED), (6, 7, ANSWERED)]:
        record.seen.append(Seen("inference", sent, done, what))
    assert record.first_answer("inference", since=2) == 7
    assert record.first_answer("inference", since=6) == math.inf
    assert record.first_answer("gateway", since=2) == math.inf


async def test_what_a_stream_sends_is_counted_and_its_steps_are_in_the_history() -> None:
    record = Record()
    async with sending([Stream("inference", CLOSED, predictions("run"), record)]):
        await until_async(lambda: record.seen)
    assert {each.what for each in record.seen} == {"connection refused"}
    assert len(record.history.predictions) == len(record.seen)
