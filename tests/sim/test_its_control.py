"""Controllers of another package run in our loop; here a package that changes at fixed times."""

import sys
from functools import partial

from lab.evaluate.its_control import FLEXIBLE, delay_s
from lab.processes import in_fresh_process
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario

PACKAGE = """
import traci

class Intersection:
    def __init__(self, tl_id, phases, links, green_states, yellow_states):
        assert links[0] and set(yellow_states[0]) <= set("yr")
        self.tl_id, self.phases = tl_id, phases

class MaxPressure_Flex:
    def __init__(self, params, intersection):
        self.intersection = intersection

    def execute_control(self, time_s):
        number, second = divmod(time_s, SECONDS)
        place = self.intersection.phases[number % len(self.intersection.phases)]
        is_yellow = second >= SECONDS - 3
        traci.trafficlight.setPhase(self.intersection.tl_id, place + is_yellow)
"""


def drive(folder: str) -> float:
    sys.path.insert(0, folder)
    return delay_s(shipped_scenario(shipped_demand(MORNING_RUSH_S, 600)), FLEXIBLE, 1)


def test_a_controller_that_sets_phases_by_traci_decides(tmp_path):
    delays_s = {}
    for seconds in (30, 300):
        package = tmp_path / f"{seconds}" / "sumoITScontrol"
        (package / "control").mkdir(parents=True)
        (package / "__init__.py").write_text(PACKAGE.replace("SECONDS", f"{seconds}"))
        (package / "control" / "__init__.py").touch()
        rules = package / "control" / "intersection_management.py"
        rules.write_text("from sumoITScontrol import MaxPressure_Flex")
        delays_s[seconds] = in_fresh_process(partial(drive, str(package.parent)))
    assert 0 < delays_s[30] < delays_s[300]
