"""A town whose detectors break keeps driving when they are diagnosed."""

from dataclasses import replace

import pytest

from lab.sim.controllers import Controller, PolicyController, run
from lab.sim.environment import Environment
from lab.sim.faults import Diagnosed
from lab.sim.scenario import Scenario
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from models.networks.shipped import SHIPPED, SHIPPED_FILE
from models.policy.form import SHIPPED_POLICY
from models.policy.step import PolicyStep
from models.signals.diagnosis import FAULTS

SEED, MINUTES = 77, 15


@pytest.fixture(scope="module")
def rush_hour() -> Scenario:
    return shipped_scenario(shipped_demand(MORNING_RUSH_S, 60 * MINUTES))


def drive(scenario: Scenario, diagnosed: bool) -> tuple[float, dict[str, set[str]]]:
    """Return the time loss, and by lane the faults found at the end."""
    step = PolicyStep.load(SHIPPED_POLICY, SHIPPED)
    made: list[Diagnosed] = []

    def control(environment: Environment) -> Controller:
        policy = PolicyController(step, SHIPPED)
        if not diagnosed:
            return policy
        made.append(Diagnosed(policy, SHIPPED))
        return made[0]

    loss = run(scenario, SEED, control).delay_s
    found: dict[str, set[str]] = {
        f"{junction.id} {lane.id}": {FAULTS[fault - 1]}
        for controller in made
        for junction in SHIPPED_FILE.junctions
        for lane, fault in zip(junction.lanes, controller.faults[junction.id], strict=True)
        if fault
    }
    return loss, found


def test_a_detector_stuck_above_zero_at_every_junction_costs_little_when_it_is_found(rush_hour):
    healthy, _ = drive(rush_hour, diagnosed=False)
    broken = replace(rush_hour, detector_reads=0.5)
    jammed, _ = drive(broken, diagnosed=False)
    loss, found = drive(broken, diagnosed=True)
    assert jammed > 1.5 * healthy, "otherwise this proves nothing"
    # in the first minutes, which are many of so few, the fault is not found yet
    assert loss - healthy < (jammed - healthy) / 4, (healthy, loss, jammed)
    junctions = [name.split()[0] for name in found]
    assert sorted(junctions) == sorted(SHIPPED.ids), "one at each junction, and no other"
    assert set.union(*found.values()) == {"stuck"}
