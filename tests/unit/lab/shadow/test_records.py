"""Records are read from JSON lines and CSV, and what is wrong with one is a sentence."""

import json
from typing import Any

import pytest

from lab.shadow.records import Malformed, Record, RecordForm
from tests.unit.lab.shadow.street import HARBOUR

FORM = RecordForm(HARBOUR)
DECISION = {"time": 10, "junction": "pier", "observation": [0, 1, 1, 0.5, 0, 0.25]}


def read(value: dict[str, Any]) -> Record | Malformed:
    return FORM.read(json.dumps(value))


def test_a_decision_a_state_and_a_loop_are_records():
    assert read(DECISION) == Record(
        time=10.0, junction="pier", observation=(0.0, 1.0, 1.0, 0.5, 0.0, 0.25)
    )
    assert read({"time": 1, "junction": "pier", "state": "GGrr"}) == Record(
        time=1.0, junction="pier", state="GGrr"
    )
    loop = {"time": 1, "junction": "pier", "lane": "pier_n_0", "occupied": False}
    assert read(loop) == Record(**loop)


def test_a_time_of_day_has_a_zone():
    in_zone = read({**DECISION, "time": "2026-03-01T07:30:00+01:00"})
    assert isinstance(in_zone, Record)
    assert in_zone.time == 1772346600
    local = read({**DECISION, "time": "2026-03-01T07:30:00"})
    assert isinstance(local, Malformed)
    assert "needs its zone" in local.reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"junction": "A"}, "the network has no junction 'A'"),
        ({"time": None}, "time: Input should be a valid number"),
        ({"time": float("nan")}, "time: "),
        ({"time": "noon"}, "time: "),
        ({"observation": [0, 1, 1, 0.5]}, "observation has 4 numbers, junction pier needs 6"),
        ({"observation": [1, 1, 1, 0, 0, 0]}, "observation must begin with a 1 for one of its 2"),
        ({"observation": [0, 1, 1, 0, 0, "x"]}, "observation.5: "),
        ({"state": "GGrr"}, "a record has one of observation, state and lane"),
        ({"observation": None}, "a record has one of observation, state and lane"),
        ({"observation": None, "state": "GGr"}, "state must have 4 letters at junction pier"),
        ({"observation": None, "lane": "x"}, "junction pier has no lane 'x'"),
        ({"observation": None, "lane": "pier_n_0"}, "a record of a lane needs occupied"),
        (
            {"shown": {"phase": 1, "greenSeconds": 3, "redSeconds": [4]}},
            "shown must fit the 2 phases of junction pier",
        ),
    ],
)
def test_what_is_wrong_is_a_sentence(changed, reason):
    read_ = read({**DECISION, **changed})
    assert isinstance(read_, Malformed)
    assert read_.reason.startswith(reason)


def test_vehicle_counts_become_shares_of_the_capacities_unless_they_are_negative():
    form = RecordForm(HARBOUR, vehicle_counts=True)
    record = form.read(json.dumps({**DECISION, "observation": [1, 0, 0, 6, 37, 3]}))
    assert isinstance(record, Record)
    assert record.observation == (1, 0, 0, 0.25, 1.0, 0.25)
    negative = json.dumps({**DECISION, "observation": [1, 0, 0, 6, -1, 3]})
    assert form.read(negative) == Malformed("vehicle counts must not be negative")


def test_lines_keep_their_numbers():
    lines = [json.dumps(DECISION), "", "{", json.dumps(DECISION)]
    read_ = list(FORM.read_lines(lines))
    assert [number for number, _ in read_] == [1, 3, 4]
    assert isinstance(read_[1][1], Malformed)


def test_a_csv_has_the_same_names():
    rows = [
        "time,junction,observation,state,lane,occupied\n",
        "10,pier,0 1 1 0.5 0 0.25,,,\n",
        "11,pier,,GGrr,,\n",
        "12,pier,,,pier_n_0,true\n",
        "13,pier,0 1,,,,too many\n",
    ]
    read_ = list(FORM.read_csv(rows))
    assert [number for number, _ in read_] == [2, 3, 4, 5]
    assert read_[0][1] == read(DECISION)
    assert [type(record) for _, record in read_] == [Record, Record, Record, Malformed]


def test_rows_with_a_cell_that_is_too_long_are_no_records():
    long = "x" * 200_000
    rows = ["time,junction,state\n", f"1,pier,{long}\n", "2,pier,GGrr\n"]
    (number, malformed), (next_number, record) = FORM.read_csv(rows)
    assert (number, next_number) == (2, 3)
    assert malformed == Malformed("state must have 4 letters at junction pier")
    assert isinstance(record, Record)
