"""Programs are read as SUMO runs them: its order, and its times in every form."""

import pytest

from lab.net.program import read_phases, text_of


def phase(state: str, duration: str = "5", **more: str) -> dict[str, str]:
    return {"state": state, "duration": duration} | more


def states(*phases: dict[str, str], kind: str = "static") -> str:
    return "".join(each["state"] for each in read_phases(phases, kind)[0])


def test_steps_are_in_the_order_of_next_without_those_that_never_recur():
    assert states(phase("a"), phase("b"), phase("c")) == "abc"
    assert states(phase("a", next="2"), phase("b", next="0"), phase("c", next="1")) == "acb"
    assert states(phase("a", next="1"), phase("b"), phase("c", next="1")) == "bc"
    assert states(phase("a"), phase("b", next="0"), phase("c", next="0")) == "ab"


def test_of_several_next_steps_sumo_takes_the_first_of_a_static_program_and_any_of_others():
    steps = phase("a", next="2 1"), phase("b", next="0"), phase("c", next="0")
    assert states(*steps) == "ac"
    assert states(*steps, kind="actuated") == "acb"
    _, remarks = read_phases(steps, "actuated")
    assert remarks == ("where its program may go on with several steps, it takes them in turn",)


def test_times_are_seconds_with_their_fractions():
    (read,), _ = read_phases([phase("a", "0:00:42.5", minDur="5.0", maxDur="1:0:1:0")], "actuated")
    assert read == {"state": "a", "duration": "42.5", "minDur": "5", "maxDur": "86460"}
    (read,), _ = read_phases([phase("a", "0.3"), phase("a", "0.3")], "static")
    assert read["duration"] == "0.6"
    assert text_of(1_234_567.25) == "1234567.25"


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (phase("a", ""), "duration of a phase: '' is not a time"),
        (phase("a", maxDur="5 s"), "maxDur of a phase: '5 s' is not a time"),
        ({"state": "a", "minDur": "5"}, "a phase has no duration"),
        (phase("a", next="1"), "next of a phase: '1' names no phase"),
    ],
)
def test_what_sumo_refuses_is_refused_with_its_name(steps, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_phases([steps], "static")
