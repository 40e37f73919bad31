"""Webster's plan: cycle, splits, and what a phase shows when."""

from __future__ import annotations

import pytest

from models.simulation.fixed_time import (
    MAX_CYCLE_S,
    MIN_CYCLE_S,
    flow_ratios,
    split_cycle,
    webster_cycle_s,
)
from models.simulation.road_network import Approach, JunctionLayout


def test_cycle_is_websters_formula() -> None:
    assert webster_cycle_s([0.3, 0.3]) == pytest.approx((1.5 * 8 + 5) / 0.4)


def test_cycle_stays_in_bounds_for_no_and_for_too_much_demand() -> None:
    assert webster_cycle_s([0.0, 0.0]) == MIN_CYCLE_S
    assert webster_cycle_s([0.9, 0.9]) == MAX_CYCLE_S


def test_green_is_split_by_flow_in_whole_decisions() -> None:
    assert split_cycle([0.4, 0.2], 68) == (45, 25)


def test_every_phase_keeps_its_minimum() -> None:
    assert split_cycle([0.5, 0.0], 30)[1] == 10


def test_flow_ratio_is_that_of_the_busiest_lane_of_the_phase() -> None:
    through = Approach("a", "c", ("a_0", "a_1"), "Gr")
    opposite = Approach("c", "a", ("c_0",), "Gr")
    side = Approach("s", "c", ("s_0",), "rG")
    junction = JunctionLayout("j", ("GGr", "rrG"), (), (through, opposite, side), ())
    volumes = {("a", "c"): 900.0, ("c", "a"): 360.0, ("s", "c"): 180.0}
    assert flow_ratios(junction, volumes) == pytest.approx([0.25, 0.1])


def test_longer_changes_lead_to_longer_cycles_and_phases() -> None:
    assert webster_cycle_s([0.3, 0.3], lost_s=8) > webster_cycle_s([0.3, 0.3])
    assert split_cycle([0.5, 0.0], 60, lost_s=8, fewest_decisions=3) == (50, 15)
