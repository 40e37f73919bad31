"""Webster's programs are for all vehicles of the demand, and for NEMA controllers, too."""

import xml.etree.ElementTree as ET

import pytest

from lab.net.importing import import_network
from lab.sim.controllers import CONTROLS, run
from lab.sim.programs import Programs, count_flows
from lab.sim.scenario import RouteFiles, Scenario
from tests.made_nets import GRID, made_net

VEHICLES, SECONDS = 1500, 300


@pytest.mark.parametrize("kind", ["trips", "flow"])
def test_vehicles_that_found_no_room_to_enter_count(tmp_path, kind):
    net, routes = made_net(tmp_path / "made.net.xml"), tmp_path / "a.rou.xml"
    way = 'from="left0A0" to="B0right0"'
    if kind == "flow":
        traffic = f'<flow id="f" begin="0" end="{SECONDS // 2}" number="{VEHICLES}" {way}/>'
    else:
        traffic = "".join(
            f'<trip id="{each}" depart="{each // 10}" {way}/>' for each in range(VEHICLES)
        )
    routes.write_text(f"<routes>{traffic}</routes>")
    network, _ = import_network(net)
    flows = count_flows(Scenario(network, net, RouteFiles((routes,)), 0, SECONDS), 0)
    entering = sum(flow for (start, _), flow in flows.items() if start == "left0A0")
    assert entering == pytest.approx(VEHICLES * 3600 / SECONDS)


@pytest.mark.parametrize("controller", ["Webster", "actuated"])
def test_programs_for_nema_controllers_show_pairs_of_phases_with_yellow_between(
    tmp_path, controller
):
    net = made_net(tmp_path / "made.net.xml", *GRID, "--tls.default-type=NEMA")
    routes = tmp_path / "a.rou.xml"
    way = 'from="left0A0" to="B0right0"'
    routes.write_text(f'<routes><flow id="f" begin="0" end="60" number="9" {way}/></routes>')
    network, _ = import_network(net)
    scenario = Scenario(network, net, RouteFiles((routes,)), 0, SECONDS)
    made = CONTROLS[controller](scenario)
    assert isinstance(made, Programs)
    for element, junction in zip(made.elements, network.junctions, strict=True):
        states = [phase.attrib["state"] for phase in ET.fromstring(element)]
        greens = [state for state in states if set(state) & set("Gg")]
        assert {*greens} == {phase.state for phase in junction.phases}
        assert ["y" in state for state in states] == [False, True, False] * 2
    assert run(scenario, 1, made).arrived == 9
