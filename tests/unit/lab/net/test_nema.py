"""NEMA controllers: which pairs of phases are actions, and the steps that show each phase."""

from dataclasses import replace

import pytest

from lab.net.nema import in_steps, nema_stages
from lab.net.program import Program
from lab.net.signal_times import signal_times

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


LONGER = ({"name": "1", "state": "Grr"}, *nema().phases[1:])


def test_a_nema_action_is_a_phase_of_each_ring_on_one_side_of_the_barrier():
    pairs, left_out = nema_stages(nema(), {(0, 3)})
    assert list(pairs.values()) == ["1+5", "1+6", "2+5", "2+6", "4+8"]
    assert {name: state for state, name in pairs.items()}["2+6"] == "gGgrrr"
    assert left_out == []


@pytest.mark.parametrize(
    "params",
    [
        *({"ring1": ring} for ring in ("2,0,4,1", "4,1,2,0", "0,4,1,2")),
        {"coordinatePhases": "2,6", "barrier2Phases": ""},  # its older name
    ],
)
def test_a_ring_may_begin_anywhere_and_the_second_barrier_have_either_name(params):
    assert nema_stages(nema(**params), ()) == nema_stages(nema(), ())


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
        (replace(nema(), phases=LONGER), (), "its states differ in length"),
    ],
)
def test_rings_that_are_not_known_leave_each_phase_an_action(program, conflicts, reason):
    stages, sentences = nema_stages(program, conflicts)
    assert stages == {phase["state"]: phase["name"] for phase in program.phases}
    assert sentences == [f"each phase of its NEMA rings is an action, as {reason}"]


def test_in_steps_each_phase_has_its_turn_with_yellow_and_red():
    times = {"duration": "90", "minDur": "6", "maxDur": "50", "yellow": "4", "red": "2"}
    timed = replace(nema(), phases=tuple(phase | times for phase in nema().phases))
    steps = in_steps(timed)
    greens = {phase["state"] for phase in steps.phases if "minDur" in phase}
    assert greens == {"GrGrrr", "gGgrrr", "rrrGGG"}
    assert steps.states == (
        *("GrGrrr", "gGgrrr", "yyyrrr", "rrrrrr"),
        *("rrrGGG", "rrryyy", "rrrrrr"),
    )
    seconds = [phase["duration"] for phase in steps.phases]
    assert seconds == ["90", "90", "4", "2", "90", "4", "2"]
    assert signal_times([steps]) == (4, 2, 6)
    assert in_steps(replace(timed, kind="static")).phases == timed.phases


def test_in_steps_a_phase_without_a_partner_has_its_turn():
    assert "rrrGGr" in in_steps(nema(ring2="5,6,0,0")).states


def test_a_nema_program_without_states_is_left_as_it_is():
    mute = replace(nema(), phases=({"name": "1"}, {"name": "2"}))
    assert in_steps(mute) == mute


def test_in_steps_phases_of_unknown_rings_follow_each_other():
    steps = in_steps(replace(nema(ring2=""), phases=nema().phases[:2]))
    assert steps.states == ("Grrrrr", "yrrrrr", "rGgrrr", "ryyrrr")
