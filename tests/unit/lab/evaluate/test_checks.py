"""A network file and a net that do not fit together are refused before anything is simulated."""

from dataclasses import replace

import pytest

from lab.evaluate.checks import check_signals
from lab.sim.scenario import InvalidScenarioError, RouteFiles, Scenario
from models.networks.form import LaneBehind
from models.networks.shipped import NET_FILE, SHIPPED_FILE

NETWORK = SHIPPED_FILE
SCENARIO = Scenario(NETWORK, NET_FILE, RouteFiles(()), 0, 60)


def test_the_shipped_network_fits_its_net():
    check_signals(SCENARIO)


@pytest.mark.parametrize(
    "changed", [{"id": "renamed_0"}, {"behind": (LaneBehind(lane="renamed_0"),)}]
)
def test_a_lane_that_the_net_lacks_is_refused(changed):
    first, *others = SCENARIO.network.junctions
    lane = first.lanes[-1].model_copy(update=changed)
    junction = first.model_copy(update={"lanes": (*first.lanes[:-1], lane)})
    network = SCENARIO.network.model_copy(update={"junctions": (junction, *others)})
    with pytest.raises(InvalidScenarioError, match="The net has no lane renamed_0, which the net"):
        check_signals(replace(SCENARIO, network=network))
