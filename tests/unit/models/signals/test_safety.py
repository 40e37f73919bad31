"""Single decisions of the safety layer."""

from dataclasses import replace

import pytest

from models.networks.shipped import SHIPPED
from models.signals.safety import Decision, Limits, SafetyLayer, Shown, Step, read_layers

PHASES = ("GGrr", "rrGG", "rGrG")
# Links 0 and 2, and 1 and 2, and 0 and 3 meet; 2 needs long to clear.
MATRIX = (
    (None, None, 4, 3),
    (None, None, 5, None),
    (7, 6, None, None),
    (3, None, None, None),
)
LAYER = SafetyLayer(PHASES, MATRIX, Limits(min_green_s=5, max_red_s=100, asked_every_s=5))


def decide(asked: int, phase: int = 0, green_s: float = 10, red_s: tuple[float, ...] = (30,) * 3):
    return LAYER.decide(Shown(phase, green_s, red_s), asked)


def test_a_change_leads_over_yellow_and_all_red_to_the_green_after_the_longest_intergreen():
    assert decide(1) == Decision(1, 5, (Step(0, "yyrr"), Step(3, "rrrr"), Step(5, "rrGG")), "none")
    assert decide(0, phase=1) == Decision(
        0, 7, (Step(0, "rryy"), Step(3, "rrrr"), Step(7, "GGrr")), "none"
    )


def test_each_link_is_yellow_for_its_own_time():
    layer = SafetyLayer(PHASES, MATRIX, LAYER.limits, yellow_s={1: 4, 2: 5})
    shown = Shown(0, 10, (30, 30, 30))
    yellows = Step(0, "yyrr"), Step(3, "ryrr"), Step(4, "rrrr")
    assert layer.decide(shown, 1) == Decision(1, 5, (*yellows, Step(5, "rrGG")), "none")
    assert layer.decide(Shown(1, 10, (30, 30, 30)), 2).steps[-1] == Step(6, "rGrG")


def test_vehicles_see_red_and_yellow_before_their_green_and_pedestrians_do_not():
    shown = Shown(0, 10, (30, 30, 30))
    for red_yellow_s, all_red in ((1, [Step(3, "rrrr")]), (2, [])):
        layer = SafetyLayer(PHASES, MATRIX, LAYER.limits, {3: 7}, red_yellow_s=red_yellow_s)
        prepared = Step(5 - red_yellow_s, "rrur")
        steps = (Step(0, "yyrr"), *all_red, prepared, Step(5, "rrGG"))
        assert layer.decide(shown, 1).steps == steps
        assert layer.decide(shown, 2).steps == (Step(0, "yGrr"), Step(3, "rGrG"))


def test_a_link_that_stays_green_stays_so_and_without_need_there_is_no_all_red():
    assert decide(2).steps == (Step(0, "yGrr"), Step(3, "rGrG"))


def test_a_movement_of_an_earlier_phase_may_still_have_to_clear():
    slow = tuple(tuple(14 if v == 5 else v for v in row) for row in MATRIX)  # link 1 before 2
    layer = SafetyLayer(("GGrr", "rrrG", "rGrG", "rrGG"), slow, Limits(max_red_s=200))
    for red_s, green_s in ((11, 3), (10.75, 4), (6, 8)):
        shown = Shown(1, 5, (20, 0, red_s, 100))
        assert layer.decide(shown, 3).after_s == green_s
        assert [step.state for step in layer.decide(shown, 3).steps][-1] == "rrGG"


def test_a_turn_that_gives_way_no_longer_waits_until_the_others_have_cleared():
    layer = SafetyLayer(("Ggr", "rGr", "rrG"), ((None, 6, 3),) * 3, Limits())
    assert layer.decide(Shown(0, 60, (0, 9, 9)), 1).steps == (
        Step(0, "ygr"),
        Step(3, "rgr"),
        Step(6, "rGr"),
    )


def test_a_phase_with_a_crossing_is_green_for_its_walk():
    layer = SafetyLayer(("Grr", "rGr", "rrG"), ((3,) * 3,) * 3, Limits(), {1: 9.0})
    assert layer.min_green_s == (5, 9, 5)
    assert layer.decide(Shown(1, 8.75, (20, 0, 20)), 0).rule == "minimum_green"
    assert layer.decide(Shown(1, 9, (20, 0, 20)), 0).rule == "none"


def test_a_phase_with_a_crossing_is_served_before_longer_reds_of_others():
    limits = Limits(max_red_s=120, max_walk_wait_s=60)
    layer = SafetyLayer(("Grr", "rGr", "rrG"), ((3,) * 3,) * 3, limits, {1: 9.0})
    assert layer.max_red_s == (120, 60, 120)
    forced = layer.decide(Shown(0, 60, (0, 55, 80)), 0)
    assert (forced.phase, forced.rule) == (1, "maximum_red")
    assert layer.decide(Shown(0, 60, (0, 20, 80)), 0).rule == "none"
    with pytest.raises(ValueError, match="safety_max_pedestrian_wait_s must be at least 37 to"):
        SafetyLayer(layer.phases, ((3,) * 3,) * 3, Limits(max_walk_wait_s=36), {1: 9.0})


@pytest.mark.parametrize("green_s", [0, 4.99])
def test_minimum_green_comes_first(green_s):
    assert decide(1, green_s=green_s) == Decision(0, 0, (), "minimum_green")
    assert decide(0, green_s=green_s) == Decision(0, 0, (), "none")


def test_a_change_under_way_is_finished_and_its_time_is_told():
    assert decide(2, phase=1, green_s=-2.5) == Decision(1, 2.5, (), "change_under_way")
    assert decide(1, phase=1, green_s=-2.5) == Decision(1, 2.5, (), "none")


def test_who_has_waited_too_long_goes_first():
    assert decide(0, red_s=(0, 99, 0)).phase == 1
    assert decide(2, red_s=(0, 99, 0)).phase == 1
    assert decide(2, red_s=(0, 99, 0)).rule == "maximum_red"
    assert decide(1, red_s=(0, 99, 0)).rule == "none"


def test_two_that_wait_are_served_in_time_one_after_the_other():
    # a turn takes 7 s of change, 5 s of green, and 5 s until the junction asks again
    latest_s = 100 - 7 - 5
    assert decide(0, red_s=(0, latest_s, latest_s - 17)).rule == "none"
    assert decide(0, red_s=(0, latest_s, latest_s - 16.5)).rule == "maximum_red"


def test_reds_beyond_the_bound_are_served_longest_first():
    assert decide(0, red_s=(0, 500, 600)).phase == 2
    assert decide(0, phase=2, red_s=(12, 500, 0)).phase == 1


@pytest.mark.parametrize(
    ("asked", "shown", "says"),
    [
        (3, Shown(0, 1, (0, 0, 0)), "phase 3 is not one of the 3 phases"),
        (-1, Shown(0, 1, (0, 0, 0)), "phase -1 is not one of the 3 phases"),
        (0, Shown(3, 1, (0, 0, 0)), "phase 3 is not one of the 3 phases"),
        (0, Shown(0, 1, (0, 0)), "red must have 3 values"),
    ],
)
def test_what_cannot_be_is_refused(asked, shown, says):
    with pytest.raises(ValueError, match=says):
        LAYER.decide(shown, asked)


def test_a_bound_that_cannot_be_kept_is_refused_with_the_junction():
    with pytest.raises(ValueError, match=r"junction \w+: safety_max_red_s must be at least"):
        read_layers(Limits(max_red_s=30), SHIPPED)


CYCLIC = SafetyLayer(PHASES, MATRIX, replace(LAYER.limits, cyclic=True))


def test_an_earlier_phase_comes_after_the_first_one_only():
    shown = Shown(2, 10, (30, 30, 0))
    back = CYCLIC.decide(shown, 1)
    assert (back.phase, back.rule) == (0, "phase_order")
    for asked in (0, 2):
        assert (CYCLIC.decide(shown, asked).phase, CYCLIC.decide(shown, asked).rule) == (
            asked,
            "none",
        )
    skipped = CYCLIC.decide(Shown(0, 10, (0, 30, 30)), 2)
    assert (skipped.phase, skipped.rule) == (2, "none")


def test_a_phase_that_must_not_wait_is_served_although_the_order_takes_two_changes():
    for red_s, phase in ((40, 2), (80, 0)):
        forced = CYCLIC.decide(Shown(2, 30, (30, red_s, 0)), 2)
        assert (forced.phase, forced.rule) == (phase, "none" if phase == 2 else "maximum_red")
