"""``greenwave lab shadow`` as typed, against a gateway that is a small HTTP server."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.shadow.records import Record
from models.networks.file import network_as_json
from models.networks.shipped import NET_FILE, SHIPPED
from serve_app.shadow import MAX_SENTENCES
from tests.support.local_server import Answer, Request, json_answer, serving
from tests.unit.lab.shadow.street import HARBOUR_FILE, PIER, START_S, cycles, decision, lamps, loop

TOKEN = "token-of-a-service-account"
NETWORK = ("--network", str(HARBOUR_FILE))


class Gateway:
    """Recommends phase 1 to clients with the token.

    Attributes:
        asked: the path, the run and the body of each request.
        answer: of each request, beside the junction.
        is_away: whether it does not answer.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.answer: dict[str, Any] = {"predictedAction": 1, "status": "success"}
        self.is_away = False

    def recommend(self, request: Request) -> Answer | None:
        if self.is_away:
            return None
        body = json.loads(request.body)
        self.asked.append((request.path, request.headers["x-simulation-run"], body))
        if request.headers["authorization"] != f"Bearer {TOKEN}":
            return json_answer(401, {"message": "Token is not valid"})
        about = {"junctionId": body["junctionId"], "signalState": "YELLOW", "timestamp": 1}
        return json_answer(200, about | self.answer)


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def url(gateway) -> Iterator[str]:
    with serving(gateway.recommend) as url:
        yield url


@pytest.fixture
def log(tmp_path) -> str:
    return str(tmp_path / "shadow.jsonl")


@pytest.fixture
def shadow(greenwave, log):
    """Run an action on the log."""
    return lambda action, *words, typed="": greenwave(
        "lab", "shadow", action, log, *NETWORK, *words, typed=typed
    )


@pytest.fixture
def record(shadow, url, tmp_path):
    """Record what is typed, as a service account."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    to = ("--url", url, "--token-file", str(tmp_path / "token"))
    return lambda *words, typed="": shadow("record", *to, *words, typed=typed)


@pytest.fixture
def logged(log) -> Callable[..., list[dict[str, Any]]]:
    """Return the entries of the log, or its segments."""

    def read(*, segments: bool = False) -> list[dict[str, Any]]:
        lines = map(json.loads, Path(log).read_text().splitlines())
        return [each for each in lines if ("time" not in each) is segments]

    return read


def as_lines(records: Iterable[Record]) -> str:
    return "".join(f"{each.model_dump_json(exclude_none=True)}\n" for each in records)


RECORDS = [*cycles(1), *(decision(65 + 5 * at, 0) for at in range(5)), loop(90, "pier_n_0")]


def test_a_stream_is_recorded_reported_and_exported(shadow, record, gateway, logged, log, tmp_path):
    recorded = record(typed=as_lines(RECORDS) + "{\n")
    assert recorded.code == 0, recorded.text
    assert recorded.lines == [
        "Line 13 is skipped: Invalid JSON: EOF while parsing an object at line 2 column 0.",
        f"{log}: 12 records in 1 segments, 5 recommendations for 5 decisions;"
        " 1 lines were skipped.",
    ]
    ((path, run),) = {(path, run) for path, run, _ in gateway.asked}
    assert re.fullmatch(r"/api/traffic/action shadow-[0-9a-f]{12}-1", f"{path} {run}")
    shown = {"phase": 0, "greenSeconds": -1.0, "redSeconds": [50.0, 20.0]}  # since the lamps
    assert gateway.asked[2][2]["shown"] == shown
    first, *_, last_decision, _ = logged()
    assert first["state"] == RECORDS[0].state
    assert "answer" not in first
    assert (last_decision["recommended"], last_decision["answer"]) == (1, "policy")

    reported = shadow("report")
    assert reported.code == 0, reported.text
    assert "at 0.0% of the 4 decisions at which it could change." in reported.out
    assert f"| {PIER} | 4 | 0.0% |" in reported.out

    parts = json.loads(shadow("report", "--json").out)
    assert all(part["title"] in reported.out for part in parts)

    exported = shadow("events", "--output", str(tmp_path / "events"))
    assert exported.code == 0, exported.text
    assert "events.csv; detectors.csv and phases.csv" in exported.err


def test_a_report_judges_the_cyclic_order_only_when_asked(shadow, record):
    last_of_three = (0, 0, 1, 1, 0, 0, 0, 0, 0)
    records = [
        Record(time=START_S, junction="customs", state="rrrGG"),
        Record(time=START_S + 40, junction="customs", observation=last_of_three),
    ]
    assert record(typed=as_lines(records)).code == 0
    refused = "The safety layer would have refused {} of 1 recommendations"
    assert refused.format(0) in shadow("report").out
    in_order = shadow("report", "--cyclic")
    assert refused.format(1) in in_order.out
    assert "phase_order" in in_order.out


def test_a_csv_continues_where_it_was_left(record, logged, tmp_path):
    table = tmp_path / "day.csv"
    rows = [f"{1000 + 5 * at},pier,1 0 1 6 0 3\n" for at in range(6)]
    for part in (rows[:4], rows):
        table.write_text("time,junction,observation\n" + "".join(part))
        assert record("--records", str(table), "--vehicle-counts").code == 0
    assert [each["line"] for each in logged()] == [2, 3, 4, 5, 6, 7]
    assert logged()[0]["observation"] == [1, 0, 1, 0.25, 0, 0.25]


SAFETY = {"asked": 1, "rule": "minimum_green", "showAfterSeconds": 0.0, "steps": []}
FALLBACK = "fallback_mode (inference service down)"


@pytest.mark.parametrize(
    ("answer", "recommended", "kind"),
    [
        ({"predictedAction": 0, "safety": SAFETY}, 1, "policy"),  # what the policy asked for
        ({"status": FALLBACK}, None, FALLBACK),
    ],
)
def test_only_what_the_policy_asks_for_is_a_recommendation(
    record, gateway, logged, answer, recommended, kind
):
    gateway.answer |= answer
    record(typed=as_lines([decision(0, 0)]))
    (entry,) = logged()
    assert (entry.get("recommended"), entry["answer"]) == (recommended, kind)


def minute(first_s: float = 0.0) -> Iterator[Record]:
    return (decision(first_s + 5 * at, 0) for at in range(12))


@pytest.mark.parametrize(
    ("second_s", "jump"), [(3600.0, "forward by 3545 s"), (-3600.0, "back by 3655 s")]
)
def test_a_jump_of_the_clock_is_named_and_begins_a_segment_with_a_new_run(
    record, gateway, logged, second_s, jump
):
    sentence, *_ = record(typed=as_lines([*minute(), *minute(second_s)])).lines
    assert sentence.startswith(f"Line 13: the time jumps {jump}, to 2001-09-09 ")
    assert sentence.endswith(". Segment 2 begins.")
    segments = logged(segments=True)
    assert [(each["segment"], each["line"]) for each in segments] == [(1, 0), (2, 12)]
    first, second = (each["run"] for each in segments)
    assert [run for _, run, _ in gateway.asked] == [first] * 12 + [second] * 12
    assert first != second


def test_another_source_or_a_stream_begins_at_its_first_line(record, logged, tmp_path):
    for at, name in enumerate(("day.jsonl", "other.jsonl")):
        (tmp_path / name).write_text(as_lines(minute(60 * at)))
        record("--records", str(tmp_path / name))
    for first_s in (120, 180):
        record(typed=as_lines(minute(first_s)))
    assert len(logged()) == 48


def test_a_file_stops_where_the_gateway_does_not_answer_and_loses_nothing(
    record, gateway, logged, tmp_path
):
    day = tmp_path / "day.jsonl"
    day.write_text(as_lines(minute()))
    gateway.is_away = True
    stopped = record("--records", str(day))
    assert stopped.lines[-1].startswith("Line 1: the gateway did not answer: ")
    assert stopped.code == 1
    gateway.is_away = False
    assert record("--records", str(day)).code == 0
    assert [each["recommended"] for each in logged()] == [1] * 12


def test_a_stream_continues_without_the_gateway_after_one_sentence(record, gateway, logged):
    gateway.is_away = True
    recorded = record(typed=as_lines(list(minute())[:2]))
    assert (recorded.code, len(recorded.lines)) == (0, 2)
    assert [each["answer"] for each in logged()] == ["the gateway did not answer"] * 2


def test_records_in_no_order_end_the_recording(record, logged):
    ended = record(typed=as_lines(decision(1000.0 * (at % 2), 0) for at in range(100)))
    assert "are not in the order of their times" in ended.lines[-1]
    assert len(logged(segments=True)) < 20


def test_a_full_log_ends_the_recording_with_whole_records(record, logged):
    ended = record("--max-bytes", "1000", typed=as_lines(minute()))
    assert "has its largest size" in ended.lines[-1]
    assert 2 < len(logged()) < 12
    assert logged()[0]["time"] == START_S


@pytest.mark.parametrize("log", ["/dev/full"])
def test_a_full_disk_is_one_sentence(record, log):
    recorded = record(typed=as_lines(RECORDS))
    assert recorded.code == 1
    assert recorded.lines[-1] == (
        "/dev/full cannot be written: No space left on device. It ends with a whole record;"
        " free space, and repeat the command to continue."
    )
    assert "Traceback" not in recorded.text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--gap", "0"), "--gap and --max-bytes must be above 0."),
        (("--records", "no.jsonl"), "no.jsonl: No such file or directory"),
        (("--network", "no.json"), "no.json: cannot be read: No such file or directory."),
    ],
)
def test_wrong_options_are_a_sentence(record, log, options, reason):
    refused = record(*options)
    assert refused.code == 1
    assert reason in refused.err
    assert not Path(log).exists()


def test_a_wrong_token_is_a_sentence_with_the_line(record, tmp_path):
    (tmp_path / "token").write_text("another")
    refused = record(typed=as_lines(RECORDS))
    assert refused.code == 1
    assert "Line 7: the gateway refuses the request: " in refused.err


def test_no_record_at_all_is_a_failure(shadow, record, log):
    refused = record(typed="a\n" * 500)
    assert refused.code == 1
    assert refused.lines[-1] == "No line was a record."
    assert len(refused.lines) == MAX_SENTENCES + 3, "the others are only counted"
    assert shadow("report").err.strip() == f"{log} has no records."


def test_records_of_another_net_are_not_simulated(greenwave, tmp_path):
    pytest.importorskip("libsumo", reason="SUMO is not installed")
    network = tmp_path / "town.json"
    file = SHIPPED.file
    assert file is not None
    lane = file.junctions[0].lanes[0].id
    network.write_text(network_as_json(file).replace(f'"{lane}"', '"renamed_0"'))
    routes = tmp_path / "town.rou.xml"
    routes.write_text("<routes/>")
    files = ("--network", str(network), "--net", str(NET_FILE), "--routes", str(routes))
    to = ("--end", "60", "--output", str(tmp_path / "records.jsonl"))
    refused = greenwave("lab", "shadow", "simulate", *files, *to)
    assert refused.code == 1
    assert refused.lines == ["The net has no lane renamed_0, which the network file has."]


def test_a_report_needs_both_files_for_the_estimate(shadow):
    refused = shadow("report", "--net", "a.net.xml")
    assert refused.err.strip() == "The estimate needs both --net and --policy."


def test_events_of_records_that_no_log_has(shadow, log, tmp_path):
    folder = tmp_path / "out"
    events = ("events", "--output", str(folder))
    Path(log).write_text(as_lines([decision(0, 0)]))
    assert shadow(*events).err.startswith("no record has the state of the lamps")
    assert "there is no zone Mars" in shadow(*events, "--time-zone", "Mars").err
    assert not folder.exists()
    Path(log).write_text(as_lines([lamps(0, "GGrr"), lamps(9, "yyrr"), lamps(12, "rrGG")]))
    assert shadow(*events).code == 0
    rows = Path(folder, "events.csv").read_text().splitlines()
    assert rows == [
        "TimeStamp,DeviceId,EventId,Parameter",
        "2001-09-09 02:00:12.000,1,0,2",
        "2001-09-09 02:00:12.000,1,1,2",
    ]
