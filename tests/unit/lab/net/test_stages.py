"""Which states of a program are stages: no change, no clearance, and no movement is lost."""

import pytest

from lab.net.program import Program
from lab.net.stages import stages_of


def static(*steps: tuple[float, str]) -> Program:
    phases = tuple({"duration": f"{seconds:g}", "state": state} for seconds, state in steps)
    return Program("0", "static", "0", phases)


@pytest.mark.parametrize(
    ("steps", "stages"),
    [
        ([(30, "GGr"), (6, "Grr"), (3, "yrr"), (20, "rrG")], ("GGr", "rrG")),
        ([(6, "Grr"), (30, "GGr"), (3, "yyr"), (20, "rrG")], ("GGr", "rrG")),
        ([(30, "Ggr"), (6, "rGr"), (20, "rrG")], ("Ggr", "rGr", "rrG")),
        ([(5, "GGr"), (25, "Grr"), (20, "rrG")], ("GGr", "Grr", "rrG")),
        ([(30, "GGrr"), (2, "GrGr"), (20, "rrGG")], ("GGrr", "rrGG")),
        ([(30, "GrrGr"), (2, "GrGrr"), (20, "rGrrG")], ("GrrGr", "GrGrr", "rGrrG")),
        ([(30, "Gsr"), (6, "Grr"), (20, "rrG")], ("Gsr", "rrG")),
    ],
    ids=[
        "a green that ends first",
        "a green that begins first",
        "a left turn that is protected afterwards",
        "a longer part",
        "an overlap of two stages",
        "a short green of a movement that has no other",
        "a right turn on red that ends first",
    ],
)
def test_a_stage_is_no_part_of_a_change(steps, stages):
    assert stages_of(static(*steps)) == stages


def test_the_green_beside_a_crossing_may_last_longer_than_its_walk():
    program = static((6, "GrG"), (30, "Grr"), (20, "rGr"))
    assert stages_of(program) == ("GrG", "Grr", "rGr")
    assert stages_of(program, walked={2}) == ("GrG", "rGr")
