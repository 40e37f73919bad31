import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from load_tests.chaos.__main__ import PARTS
from load_tests.chaos.checker import Finding, Harm, Verdict
from load_tests.chaos.clients import ANSWERED
from load_tests.chaos.experiments import Course, Result, judge_services, judge_states
from load_tests.chaos.faults import FAULTS
from load_tests.chaos.history import Key, Prediction
from load_tests.chaos.requests import FALLBACK, Record, Seen, Stream, predictions, sending
from tests.support.waiting import until_async

CLOSED = "http://127.0.0.1:1"


def complaints(fault: str, lost: int = 0, missing: int = 0, seen: Sequence[str] = ()) -> list[str]:
    return list(judge_services(FAULTS[fault], Counter([ANSWERED, *seen]), lost, missing))


def seen(*kinds: str) -> dict[str, Any]:
    return {"seen": kinds}


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


def test_a_longer_time_is_reported_unless_the_machine_is_busy() -> None:
    result = Result({"loans": (2.1, 2.0), "flow": (2.0, 2.0)}, ["2 are lost"], [], {})
    assert result.complaints() == ["loans was away for 2.1 s, not 2", "2 are lost"]
    assert result.complaints(slack_s=0.2) == ["2 are lost"]


def test_a_system_must_become_whole_and_a_fault_have_its_effect() -> None:
    course = Course("12:00:00", 1.0, 2.0, 9.0, math.inf, "there is no process")
    not_whole = "the system did not become whole again"
    assert [*course.complaints()] == [not_whole, "there is no process"]
    assert [*course._replace(whole_s=5.0, failure="").complaints()] == []


@pytest.mark.parametrize("harm", Harm)
def test_a_harmed_step_and_a_state_without_an_answer_are_named(harm: Harm) -> None:
    verdict = Verdict((Finding(harm, Prediction(Key("run", "junction"), 0.0, 1.0)),))
    assert [*judge_states(verdict)] == [f"1 steps were {harm.value}"]
    assert [*judge_states(Verdict(), silent=2)] == ["2 states were not answered for again"]


def test_every_part_injects_known_faults() -> None:
    assert {name for part in PARTS.values() for name in part.faults} == FAULTS.keys()


@pytest.mark.parametrize(
    ("fault", "changed", "complaint"),
    [
        ("front", seen("404 text/plain"), "clients saw 404 text/plain"),
        ("ray", seen("500"), "clients saw 500"),
        ("ray", seen("no answer in 10 s"), "clients saw no answer"),
        ("front", seen("connection broken"), "clients saw connection broken"),
        ("states", {"lost": 1}, "1 answered steps"),
        ("ray", {"missing": 2}, "2 acknowledged records are missing"),
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
