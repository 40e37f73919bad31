"""The network of the documents, which is served unless another is configured.

Its files are in ``greenwave/``: the network file, SUMO's net with the plain XML that it is built
from, its demand, and its fixed-time plans. An agent's index is its junction's place in the table of
the traffic-signal contract, section "Known junction identifiers".
"""

from __future__ import annotations

from pathlib import Path

from models.networks.file import read_network_file
from models.networks.network import Network, network_of

FOLDER = Path(__file__).with_name("greenwave")
NETWORK_FILE = FOLDER / "greenwave.json"
NET_FILE = FOLDER / "greenwave.net.xml"
DEMAND_FILE = FOLDER / "greenwave.demand.json"

SHIPPED_FILE = read_network_file(NETWORK_FILE)
SHIPPED: Network = network_of(SHIPPED_FILE)
JUNCTIONS = SHIPPED.junctions
N_AGENTS, N_ACTIONS, MAX_OBS = SHIPPED.n_agents, SHIPPED.n_actions, SHIPPED.max_obs


def is_shipped(network: Network) -> bool:
    """Tell whether a network has the junctions of the documents."""
    return network.digest == SHIPPED.digest
