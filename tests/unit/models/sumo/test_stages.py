"""Which states of a program are stages: no change, no clearance, and no movement is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.sumo.net import Program
from models.sumo.stages import nema_stages, stages_of


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


STATES = {"1": "Grrrrr", "2": "rGgrrr", "5": "rrGrrr", "6": "gGrrrr", "4": "rrrGGr", "8": "rrrrrG"}
RINGS = {
    "ring1": "1,2,0,4",
    "ring2": "5,6,0,8",
    "barrierPhases": "4,8",
    "barrier2Phases": "2,6",
}


def nema(**params: str) -> Program:
    phases = tuple({"name": name, "state": state} for name, state in STATES.items())
    return Program("0", "NEMA", "0", phases, RINGS | params)


def test_a_nema_action_is_a_phase_of_each_ring_on_one_side_of_the_barrier():
    pairs, left_out = nema_stages(nema(), {(0, 3)})
    assert list(pairs.values()) == ["1+5", "1+6", "2+5", "2+6", "4+8"]
    assert {name: state for state, name in pairs.items()}["2+6"] == "gGgrrr"
    assert left_out == []


@pytest.mark.parametrize("ring1", ["2,0,4,1", "4,1,2,0", "0,4,1,2"])
def test_a_ring_may_begin_anywhere(ring1):
    assert nema_stages(nema(ring1=ring1), ()) == nema_stages(nema(), ())


def test_the_second_barrier_may_have_its_older_name():
    program = nema(coordinatePhases="2,6", barrier2Phases="")
    assert nema_stages(program, ()) == nema_stages(nema(), ())


def test_a_pair_with_conflicting_greens_is_left_out_and_no_movement_is_lost():
    pairs, left_out = nema_stages(nema(), {(4, 5), (0, 2)})
    assert set(pairs.values()) == {"4", "8", "1+6", "2+5", "2+6"}
    assert left_out == [
        "the pair 1+5 has conflicting greens and is left out",
        "the pair 4+8 has conflicting greens and is left out",
    ]


@pytest.mark.parametrize(
    ("program", "conflicts", "reason"),
    [
        (nema(ring2=""), (), "the net does not have two rings and two barriers"),
        (nema(barrierPhases=""), (), "the net does not have two rings and two barriers"),
        (nema(ring1="1,2,0,9"), (), "the net has no phase 9"),
        (nema(), None, "the net does not say which movements conflict"),
    ],
)
def test_rings_that_are_not_known_leave_each_phase_an_action(program, conflicts, reason):
    stages, sentences = nema_stages(program, conflicts)
    assert stages == {state: name for name, state in STATES.items()}
    assert sentences == [f"each phase of its NEMA rings is an action, as {reason}"]


def test_states_of_different_lengths_have_no_pairs():
    program = nema()
    longer = replace(program, phases=({"name": "1", "state": "Grr"}, *program.phases[1:]))
    assert "differ in length" in nema_stages(longer, ())[1][0]
