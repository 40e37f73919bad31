"""A signal that people walk at, small enough for tests."""

from pathlib import Path

from lab.net.importing import import_network
from lab.sim.scenario import RouteFiles, Scenario
from models.networks.file import network_as_json
from tests.made_nets import SIGNALS, made_net

END_S = 300
ONE = "--grid", "--grid.number=1", "--grid.attach-length=100", "--no-turnarounds"
WALKED = "--sidewalks.guess", "--crossings.guess"


def walked_scenario(folder: Path, pedestrian_calls: bool = True) -> Scenario:
    """Make four roads that meet, with vehicles on two and people who cross the junction.

    Its files are ``town.json``, ``town.net.xml`` and ``town.rou.xml``.
    """
    net = made_net(folder / "town.net.xml", *ONE, *WALKED, SIGNALS)
    routes = folder / "town.rou.xml"
    routes.write_text(
        '<routes><flow id="v" from="left0A0" to="A0right0" begin="0" end="200" period="5"/>'
        '<personFlow id="p" begin="0" end="200" period="10">'
        '<walk from="bottom0A0" to="A0top0"/></personFlow></routes>'
    )
    network, _ = import_network(net, "a town", pedestrian_calls=pedestrian_calls)
    (folder / "town.json").write_text(network_as_json(network))
    return Scenario(network, net, RouteFiles((routes,)), 0, END_S, decision_s=10)
