import math
from collections import Counter
from typing import Any

import pytest

from load_tests.chaos.clients import ANSWERED
from load_tests.chaos.requests import FALLBACK, Record, Seen, Stream, predictions, sending
from load_tests.chaos.service_experiments import ServiceResult
from load_tests.chaos.service_faults import FAULTS
from tests.support.waiting import until_async

CLOSED = "http://127.0.0.1:1"


def result(fault: str, **changed: Any) -> ServiceResult:
    values: dict[str, Any] = {
        "away_s": {"inference": 0.2, "loans": 0.2},
        "slowest_s": 0.3,
        "kinds": Counter({ANSWERED: 100}),
        "lost": 0,
        "missing": 0,
        "injected_at": 0.0,
        "back_s": 0.2,
        "whole_s": 0.2,
    }
    return ServiceResult(FAULTS[fault], **values | changed)


@pytest.mark.parametrize(
    ("fault", "changed"),
    [
        ("gateway", {}),
        ("gateway", {"away_s": {"inference": 1.9}}),
        ("ray", {"away_s": {"inference": 29.0}}),
        ("store", {"away_s": {"inference": 0.1, "loans": 6.9}}),
        ("edge", {"kinds": Counter({"connection refused": 3, "connection broken": 2})}),
        ("front", {"kinds": Counter({FALLBACK: 3, "503": 2})}),
        ("only-inference", {"away_s": {"inference": 4.0}}),
        ("code", {"away_s": {"inference": 1.9}}),
    ],
)
def test_what_a_fault_may_cost_is_no_reason_to_complain(
    fault: str, changed: dict[str, Any]
) -> None:
    assert result(fault, **changed).complaints() == []


@pytest.mark.parametrize(
    ("fault", "changed", "complaint"),
    [
        ("gateway", {"away_s": {"inference": 2.1}}, "inference was away for 2.1 s, not 2"),
        ("front", {"away_s": {"inference": 1.1}}, "away for 1.1 s, not 1"),
        ("store", {"away_s": {"inference": 2.1, "loans": 1.0}}, "inference was away"),
        ("store", {"away_s": {"loans": 7.1}}, "loans was away for 7.1 s, not 7"),
        ("ray", {"away_s": {"inference": 30.1}}, "not 30"),
        ("front", {"kinds": Counter({"404 text/plain": 1})}, "clients saw 404 text/plain"),
        ("front", {"kinds": Counter({"404": 1})}, "clients saw 404"),
        ("ray", {"kinds": Counter({"500": 1})}, "clients saw 500"),
        ("ray", {"kinds": Counter({"503 text/html": 1})}, "clients saw 503 text/html"),
        ("front", {"kinds": Counter({"502 text/plain": 1})}, "clients saw 502 text/plain"),
        ("states", {"kinds": Counter({"400": 1})}, "clients saw 400"),
        ("gateway", {"kinds": Counter({"429": 1})}, "clients saw 429"),
        ("ray", {"kinds": Counter({"no answer in 10 s": 1})}, "clients saw no answer"),
        ("front", {"kinds": Counter({"connection broken": 1})}, "clients saw connection broken"),
        ("states", {"lost": 1}, "1 answered steps"),
        ("ray", {"lost": 1}, "1 answered steps"),
        ("ray", {"missing": 2}, "2 acknowledged records are missing"),
        ("gateway", {"whole_s": math.inf}, "not become whole"),
        ("gateway", {"failure": "there is no process"}, "there is no process"),
        ("code", {"kinds": Counter({ANSWERED: 9, FALLBACK: 3})}, "3 requests were not answered"),
        ("rollback", {"kinds": Counter({"503": 1})}, "1 requests were not answered"),
        ("weights", {"lost": 1}, "1 answered steps"),
    ],
)
def test_what_is_worse_is_reported(fault: str, changed: dict[str, Any], complaint: str) -> None:
    (sentence,) = result(fault, **changed).complaints()
    assert complaint in sentence


def test_a_service_is_away_from_its_last_answer_to_the_next_one() -> None:
    record = Record()
    for sent, done, what in [(0, 1.0, ANSWERED), (2, 2.5, "503"), (3, 4.0, FALLBACK)]:
        record.seen.append(Seen("gateway", sent, done, what))
    record.seen.append(Seen("loans", 2, 2.0, ANSWERED))
    assert record.away_s("gateway", since=0.5, until=5.0) == 3.0
    assert record.away_s("gateway", since=2.0, until=9.0) == 5.0
    assert record.away_s("another", since=2.0, until=9.0) == 7.0
    assert record.slowest_s("gateway") == 1.0


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
    assert set(record.counts("inference")) == {"connection refused"}
    assert len(record.history.predictions) == len(record.seen)
