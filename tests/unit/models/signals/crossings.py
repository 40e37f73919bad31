"""Junctions with pedestrian crossings, as netgenerate makes them."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.net.importing import import_network
from models.networks.network import Network, network_of
from tests.made_nets import SIGNALS, made_net

WALKED = "--sidewalks.guess", "--crossings.guess", "--no-turnarounds", SIGNALS
TURNS = "--default.lanenumber=2", "--turn-lanes=1"
ONE = "--grid", "--grid.number=1", "--grid.attach-length=150"


@cache
def walked_junction() -> Network:
    """Return one junction with four crossings and four phases, two of them without a walk."""
    with TemporaryDirectory(prefix="greenwave-") as folder:
        file, _ = import_network(made_net(Path(folder, "walked.net.xml"), *ONE, *TURNS, *WALKED))
    return network_of(file)
