"""The recorder asks in runs that no controller uses, and logs recommendations beside records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from greenwave.client import Decision, Shown, UnavailableError
from lab.shadow.log import Entry, LogWriter, Segment, ShadowLogError, read_log
from lab.shadow.records import Malformed, Record
from serve_app.shadow import MAX_SENTENCES, Recorded, Recorder, ShadowError
from tests.unit.lab.shadow.street import HARBOUR, PIER, QUAY, START_S, decision, lamps

PLENTY = 10**7


class FakeGateway:
    """Recommends phase 1, or raises ``error``; remembers what it was asked in which run."""

    def __init__(self, **answer: Any) -> None:
        self.error: Exception | None = None
        self.asked: list[tuple[str, str, Shown | None]] = []
        self._answer = {"action": 1, "status": "success", **answer}

    def run(self, name: str) -> FakeRun:
        return FakeRun(self, name)

    def decide(self, name: str, junction: str, shown: Shown | None) -> Decision:
        if self.error is not None:
            raise self.error
        self.asked.append((name, junction, shown))
        return Decision(junction_id=junction, signal="YELLOW", timestamp=1, **self._answer)


class FakeRun:
    def __init__(self, gateway: FakeGateway, name: str) -> None:
        self._gateway, self._name = gateway, name

    def act(
        self, junction: str, observation: tuple[float, ...], *, shown: Shown | None = None
    ) -> Decision:
        return self._gateway.decide(self._name, junction, shown)


class Street:
    """A log in a folder, and recordings into it.

    Attributes:
        printed: sentences of the recorder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shadow.jsonl"
        self.gateway = FakeGateway()
        self.printed: list[str] = []

    def record(
        self, records: Iterable[Record | Malformed], source: str = "", max_bytes: int = PLENTY
    ) -> Recorded:
        log = LogWriter(self.path, max_bytes)
        recorder = Recorder(
            HARBOUR, log, self.gateway.run, "shadow", source, self.printed.append, gap_s=60
        )
        try:
            recorder.record(enumerate(records, 1))
        finally:
            log.close()
        return recorder.recorded

    @property
    def entries(self) -> list[Entry]:
        return [each for each in read_log(self.path, HARBOUR) if isinstance(each, Entry)]

    @property
    def segments(self) -> list[Segment]:
        return [each for each in read_log(self.path, HARBOUR) if isinstance(each, Segment)]


@pytest.fixture
def street(tmp_path) -> Street:
    return Street(tmp_path)


def minute(first_s: float = 0.0) -> Iterator[Record]:
    return (decision(first_s + 5 * at, 0) for at in range(12))


def test_decisions_are_logged_with_the_recommendation_and_other_records_as_they_are(street):
    recorded = street.record([lamps(0, QUAY), *minute()])
    assert recorded == (13, 12, 12, 0, 1)
    state, first, *_ = street.entries
    assert (state.state, state.answer, state.line) == (QUAY, None, 1)
    assert (first.recommended, first.answer, first.line) == (1, "policy", 2)
    assert street.gateway.asked[2] == ("shadow-1", PIER, Shown(0, 10.0, [0.0, 10.0]))


SAFETY = {"asked": 1, "rule": "minimum_green", "showAfterSeconds": 0.0, "steps": []}
FALLBACK = "fallback_mode (inference service down)"


@pytest.mark.parametrize(
    ("answer", "recommended", "kind"),
    [
        ({"action": 0, "safety": SAFETY}, 1, "policy"),  # what the policy asked for
        ({"status": FALLBACK}, None, FALLBACK),
    ],
)
def test_only_what_the_policy_asks_for_is_a_recommendation(street, answer, recommended, kind):
    street.gateway = FakeGateway(**answer)
    street.record([decision(0, 0)])
    (entry,) = street.entries
    assert (entry.recommended, entry.answer) == (recommended, kind)


@pytest.mark.parametrize(
    ("second_s", "jump"), [(3600.0, "forward by 3545 s"), (-3600.0, "back by 3655 s")]
)
def test_a_jump_of_the_clock_is_named_and_begins_a_segment_with_a_new_run(street, second_s, jump):
    street.record([*minute(), *minute(second_s)])
    (sentence,) = street.printed
    assert sentence.startswith(f"Line 13: the time jumps {jump}, to 2001-09-09 ")
    assert sentence.endswith(". Segment 2 begins.")
    assert [(each.segment, each.run, each.line) for each in street.segments] == [
        (1, "shadow-1", 0),
        (2, "shadow-2", 12),
    ]
    assert [name for name, *_ in street.gateway.asked] == ["shadow-1"] * 12 + ["shadow-2"] * 12


def test_many_malformed_lines_are_few_sentences(street):
    assert street.record([Malformed("no")] * 500).malformed == 500
    assert len(street.printed) == MAX_SENTENCES + 1


def test_another_source_or_a_stream_begins_at_its_first_line(street):
    street.record(minute(), source="/srv/day.jsonl")
    street.record(minute(60), source="/srv/other.jsonl")
    street.record(minute(120))
    street.record(minute(180))
    assert len(street.entries) == 48


def test_a_file_stops_where_the_gateway_does_not_answer_and_loses_nothing(street):
    street.gateway.error = UnavailableError("No connection: refused")
    with pytest.raises(ShadowError, match=r"Line 1: the gateway did not answer: No connection"):
        street.record(minute(), source="/srv/day.jsonl")
    street.gateway.error = None
    street.record(minute(), source="/srv/day.jsonl")
    assert [each.recommended for each in street.entries] == [1] * 12


def test_a_stream_continues_without_the_gateway_after_one_sentence(street):
    street.gateway.error = UnavailableError("No connection: refused")
    assert street.record(minute()).recommended == 0
    assert len(street.printed) == 1
    assert street.entries[5].answer == "the gateway did not answer"


def test_records_in_no_order_end_the_recording(street):
    shuffled = [decision(1000.0 * (at % 2), 0) for at in range(100)]
    with pytest.raises(ShadowError, match="are not in the order of their times"):
        street.record(shuffled)
    assert len(street.segments) < 20


def test_a_full_log_ends_the_recording_with_whole_records(street):
    with pytest.raises(ShadowLogError, match="has its largest size"):
        street.record(minute(), max_bytes=1000)
    assert 2 < len(street.entries) < 12
    assert street.entries[0].time == START_S
