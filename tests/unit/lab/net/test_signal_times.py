"""The times of a signal, from programs in any steps."""

import pytest

from lab.net.program import Program
from lab.net.signal_times import signal_times


def program(*steps: tuple[float, str], **more: str) -> Program:
    phases = tuple({"duration": f"{seconds}", "state": state, **more} for seconds, state in steps)
    return Program("0", "static", "0", phases)


@pytest.mark.parametrize(
    ("steps", "yellow_s", "red_s"),
    [
        ([(30, "Gr"), (4, "yr"), (2, "rr"), (20, "rG"), (4, "ry"), (2, "rr")], 4, 2),
        ([(4, "yr"), (2, "rr"), (20, "rG"), (4, "ry"), (2, "rr"), (30, "Gr")], 4, 2),
        ([(30, "Gr"), (2, "yr"), (2, "yr"), (1, "rr"), (1, "ru"), (20, "rG"), (4, "ry")], 4, 0),
        ([(30, "GrG"), (4, "yrG"), (2, "rrG"), (20, "rGG"), (4, "ryG"), (2, "rrG")], 4, 2),
        ([(30, "GGr"), (3, "Gyr"), (6, "Grr"), (3, "yrr"), (20, "rrG"), (3, "rry")], 3, 0),
        ([(30, "Gr"), (3.5, "yr"), (1.2, "rr"), (20, "rG"), (3.5, "ry"), (1.2, "rr")], 4, 2),
        ([(30, "Gr"), (20, "rG")], 3, 0),
    ],
    ids=[
        "yellow and red",
        "a program that begins in a change",
        "red on one side of two",
        "beside a green that continues",
        "a green that ends later",
        "parts of a second",
        "no yellow",
    ],
)
def test_yellow_and_red_are_those_of_most_changes(steps, yellow_s, red_s):
    assert signal_times([program(*steps)]) == (yellow_s, red_s, 5)


def test_the_least_green_is_that_of_most_stages():
    steps = (30, "Gr"), (3, "yr"), (20, "rG"), (3, "ry")
    short = program(*steps, minDur="7")
    assert signal_times([program(*steps, minDur="9.5"), short, short]).min_green_s == 7


def test_without_programs_there_are_usual_times():
    assert signal_times([]) == (3, 0, 5)
