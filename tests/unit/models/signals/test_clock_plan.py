"""The plan by the clock: whoever reads it at one time comes to the same phases."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.networks.shipped import JUNCTIONS, SHIPPED
from models.signals.clock_plan import DAY_S, SHIPPED_PLAN, InvalidPlanError, read_plan
from models.signals.states import MIN_GREEN_S, YELLOW_S

CENTER, MILL = "joinedS_265580996_300839357", "300839359"


def timings(main_s: int, offset_s: int = 0) -> dict[str, Any]:
    return {
        junction.id: {"offset_s": offset_s, "phases_s": [main_s] + [10] * (junction.n_phases - 1)}
        for junction in JUNCTIONS.values()
    }


def content() -> dict[str, Any]:
    return {
        "name": "test",
        "periods": [
            {"begin": "00:00", "junctions": timings(20)},
            {"begin": "07:30", "junctions": timings(40, offset_s=5)},
        ],
    }


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Any], Path]:
    def write(value: Any) -> Path:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(value))
        return path

    return write


def test_the_cycle_repeats_from_midnight_on_moved_by_its_offset(file):
    plan = read_plan(file(content()), SHIPPED)
    phases = [plan.at(MILL, second).phase for second in (0, 19.9, 20, 29, 30, 50)]
    assert phases == [0, 0, 1, 1, 0, 1]
    assert [plan.at(CENTER, second).phase for second in (0, 20, 30, 40, 50)] == [0, 1, 2, 3, 0]
    assert 27_000 % 50 == 0, "from 7:30 on there is an offset of 5 s"
    assert [plan.at(MILL, 27_000 + each).phase for each in (0, 4.9, 5, 44, 45)] == [1, 1, 0, 0, 1]


def test_a_period_holds_until_the_next_and_the_last_until_midnight(file):
    plan = read_plan(file(content()), SHIPPED)
    seconds = (0, 27_000 - 1, 27_000, DAY_S - 1, DAY_S, DAY_S + 27_000, -1)
    begins = ("00:00", "00:00", "07:30", "07:30", "00:00", "07:30", "07:30")
    assert [plan.at(MILL, each).plan for each in seconds] == [f"test {begin}" for begin in begins]


def period(junctions: dict[str, Any], begin: str = "00:00") -> dict[str, Any]:
    return {"periods": [{"begin": begin, "junctions": junctions}]}


THREE = {MILL: {"offset_s": 0, "phases_s": [20] * 3}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"periods": []}, "periods"),
        (period(timings(20), "00:10"), "must begin at 00:00"),
        ({"periods": content()["periods"][::-1]}, "must begin at 00:00"),
        (period(timings(20), "24:00"), "begin"),
        (period({each: it for each, it in timings(20).items() if each != MILL}), MILL),
        (period(timings(20) | {"x": {}}), "x"),
        (period(timings(YELLOW_S)), "phases_s"),
        (period(timings(10**6)), "phases_s"),
        (period(timings(20, offset_s=-1)), "offset_s"),
        (period(timings(20) | THREE), f"junction {MILL} has 2 phases"),
        ({"name": ""}, "name"),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(file, change, says):
    with pytest.raises(InvalidPlanError, match=says):
        read_plan(file(content() | change), SHIPPED)


def test_a_missing_file_and_one_that_is_no_json_are_refused(tmp_path):
    with pytest.raises(InvalidPlanError, match="cannot be read: No such file"):
        read_plan(tmp_path / "none.json", SHIPPED)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InvalidPlanError, match="is no plan"):
        read_plan(tmp_path / "broken.json", SHIPPED)
    (tmp_path / "twice.json").write_text(SHIPPED_PLAN.read_text().replace("{", '{"name": "x",', 1))
    with pytest.raises(InvalidPlanError, match="is no plan: an object has the key 'name' twice"):
        read_plan(tmp_path / "twice.json", SHIPPED)


def test_no_phase_is_shorter_than_its_yellow_and_minimum_green():
    shortest = min(
        seconds
        for period in json.loads(SHIPPED_PLAN.read_text())["periods"]
        for timing in period["junctions"].values()
        for seconds in timing["phases_s"]
    )
    assert shortest >= YELLOW_S + MIN_GREEN_S
