"""A made-up town with traffic, small enough for tests."""

import random
from collections.abc import Iterable
from pathlib import Path

from lab.net.importing import import_network
from lab.sim.scenario import RouteFiles, Scenario
from models.networks.file import network_as_json
from models.networks.network import Network
from tests.made_nets import made_net

END_S = 600
TRIPS = (("left0A0", "B0right0"), ("bottom1B0", "B1top1"), ("right1B1", "A1left1"))


class Town:
    """Four signals, and a trip from three sides every ten seconds.

    Attributes:
        net, routes, network: the files.
    """

    def __init__(self, folder: Path) -> None:
        self.net, self.routes = made_net(folder / "town.net.xml"), folder / "town.rou.xml"
        self.network = folder / "town.json"
        trips = "".join(
            f'<trip id="{second}_{start}" depart="{second}" from="{start}" to="{end}"/>'
            for second in range(0, END_S, 10)
            for start, end in TRIPS
        )
        self.routes.write_text(f"<routes>{trips}</routes>")
        network, _ = import_network(self.net, "a town")
        self.network.write_text(network_as_json(network))
        routes = RouteFiles((self.routes,))
        self.scenario = Scenario(network, self.net, routes, 0, END_S, decision_s=10)


class RandomPhases:
    """Requests any phase of each junction, each as likely as another."""

    def __init__(self, network: Network, seed: int) -> None:
        self._junctions, self._random = network.junctions, random.Random(seed)

    def act(self, observations: Iterable[str]) -> dict[str, int]:
        return {
            each: self._random.randrange(self._junctions[each].n_phases) for each in observations
        }
