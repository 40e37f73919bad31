"""A town whose detectors break keeps driving when they are diagnosed."""

from dataclasses import replace

from lab.sim.controllers import PolicyController, run
from lab.sim.faults import Diagnosed
from lab.sim.scenario import Scenario
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from models.networks.shipped import SHIPPED
from models.policy.form import SHIPPED_POLICY
from models.policy.step import PolicyStep
from models.signals.diagnosis import STUCK

SEED, MINUTES = 77, 15


def test_a_detector_stuck_above_zero_at_every_junction_costs_little_when_it_is_found():
    rush_hour = shipped_scenario(shipped_demand(MORNING_RUSH_S, 60 * MINUTES))
    step = PolicyStep.load(SHIPPED_POLICY, SHIPPED)

    def delay_s(scenario: Scenario) -> float:
        return run(scenario, SEED, lambda _: PolicyController(step, SHIPPED)).delay_s

    broken = replace(rush_hour, detector_reads=0.5)
    healthy_s, jammed_s = delay_s(rush_hour), delay_s(broken)
    diagnosed = Diagnosed(PolicyController(step, SHIPPED), SHIPPED)
    found_s = run(broken, SEED, lambda _: diagnosed).delay_s
    assert jammed_s > 1.5 * healthy_s, "otherwise this proves nothing"
    # in the first minutes, which are many of so few, the fault is not found yet
    assert found_s - healthy_s < (jammed_s - healthy_s) / 4, (healthy_s, found_s, jammed_s)
    for faults in diagnosed.faults.values():
        assert sorted(faults)[-2:] == [0, STUCK], "one at each junction, and no other"
